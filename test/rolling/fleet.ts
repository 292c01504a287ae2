// Two gateways that are restarted one after the other, as deploy/RUNBOOK.md ("Rolling restart") describes. During the
// restarts no request may fail, although the producer never retries, and every accepted event must reach the queue.
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { GATEWAY, PATIENT, TestClient, TestProcess } from '../support/gateway.ts';
import { Load } from '../support/load.ts';
import { Pki } from '../support/pki.ts';
import { freePort, TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';

/** The number of times that each gateway is restarted. */
export const RESTARTS = Number(process.env['ROLLING_RESTARTS'] ?? 1);
/** `make rolling-restart` runs alone on the machine. Otherwise other tests may be running, and no rate is required. */
const IS_ALONE = process.env['ROLLING_RESTARTS'] !== undefined;
const PER_SECOND = IS_ALONE ? 1_000 : 200;
const HELD_RATE = IS_ALONE ? 0.8 : 0;
const EVENTS_BETWEEN = 1.5 * PER_SECOND;
/** Connections used in turn, so that none is idle for long. */
const CONNECTIONS = { maxSockets: 40, scheduling: 'fifo' } as const;
const SENDERS = 200;
/**
 * A gateway that stops closes connections that were idle for this long (lib/http/connection.ts). If this process does
 * not run for so long, its next request may meet such a connection. The gateway has not seen the request, so a client
 * may send it again (RFC 9112, section 9.3.1), which this one does not.
 */
const IDLE_GRACE_MS = 400;
const SHOWN_MAX = 10;

export interface FleetGateway {
  readonly port: number;
  readonly adminPort: number;
  process: TestProcess;
}

export async function startFleet(sharesPort: boolean, env: Readonly<Record<string, string>>) {
  const [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  const start = (port: number, adminPort: number): TestProcess =>
    new TestProcess(GATEWAY, [], {
      ...{ ...PATIENT, ...pki.environment, INGEST_QUEUE_URI: redis.uri },
      INGEST_STATE_DIR: temporaryFolder('ingest-state-'),
      INGEST_GATEWAY_ADDR: `127.0.0.1:${port}`,
      INGEST_ADMIN_ADDR: `127.0.0.1:${adminPort}`,
      ...env,
    });
  const ready = ({ adminPort, process }: FleetGateway): Promise<boolean> =>
    eventually(`the gateway with admin port ${adminPort} is ready`, async () => {
      if (process.child.exitCode !== null) throw new Error(process.output);
      return (await fetch(`http://127.0.0.1:${adminPort}/health/ready`)).ok;
    });
  const gateways: FleetGateway[] = [];
  for (let at = 0; at < 2; at += 1) {
    const port = (sharesPort ? gateways[0]?.port : undefined) ?? (await freePort());
    const adminPort = await freePort();
    gateways.push({ port, adminPort, process: start(port, adminPort) });
  }
  await Promise.all(gateways.map(ready));

  /**
   * Restarts each gateway, and after each restart waits for `settled`. `port` is the producer's way to the gateways.
   */
  async function assertRestartsLoseNothing(
    t: TestContext,
    port: number,
    settled: (gateway: FleetGateway) => Promise<unknown> = () => Promise.resolve(),
  ): Promise<void> {
    const client = new TestClient(port, pki.authority.certificate, await pki.producer('shop'), {}, CONNECTIONS);
    const load = new Load(client, 'event', SENDERS, (1_000 * SENDERS) / PER_SECOND, true);
    try {
      await load.more(EVENTS_BETWEEN);
      for (const gateway of Array.from({ length: RESTARTS }, () => gateways).flat()) {
        gateway.process.signal('SIGTERM');
        assert.deepEqual(await gateway.process.exited(), { code: 0, signal: null }, gateway.process.output);
        gateway.process = start(gateway.port, gateway.adminPort);
        await ready(gateway);
        await settled(gateway);
        await load.more(EVENTS_BETWEEN);
      }
    } finally {
      // Otherwise the load's timer would keep the process of a failed test running.
      await load.stop();
    }
    const told = `${load.sent} events, ${Math.round(load.perSecond)} a second, slowest ${Math.round(load.slowestMs)} ms`;
    assert.ok(load.perSecond >= HELD_RATE * PER_SECOND, told);
    const late = await assertNothingLost(load);
    t.diagnostic(`${told}${late === 0 ? '' : `, ${late} sent on connections that had just been closed as idle`}`);
  }

  /** Returns the number of requests that met a connection which was closed because the client had been idle. */
  async function assertNothingLost(load: Load): Promise<number> {
    const entries = await redis.entries();
    const queued = new Set(entries.map(({ fields }) => (JSON.parse(fields['body'] ?? '{}') as { id: string }).id));
    const late = [...load.unanswered].filter(([id, { idleMs = 0 }]) => idleMs >= IDLE_GRACE_MS && !queued.has(id));
    for (const [id] of late) load.unanswered.delete(id);
    // Only counts and a few examples are compared, because comparing 100,000 ids takes too long.
    assert.deepEqual([load.failures.length, ...load.failures.slice(0, SHOWN_MAX)], [0], 'of requests');
    assert.equal(load.accepted.size + late.length, load.sent);
    const lost = [...load.accepted].filter((id) => !queued.has(id));
    assert.deepEqual([lost.length, ...lost.slice(0, SHOWN_MAX)], [0]);
    assert.deepEqual([entries.length, queued.size], [load.accepted.size, load.accepted.size]);
    return late.length;
  }

  return { redis, pki, gateways, assertRestartsLoseNothing };
}
