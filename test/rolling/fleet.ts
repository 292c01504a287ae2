// Two gateways that are restarted one after the other, as deploy/RUNBOOK.md ("Rolling restart") describes. During the
// restarts no request may fail, although the producer never retries, and every accepted event must reach the queue.
import assert from 'node:assert/strict';
import { GATEWAY, PATIENT, TestClient, TestProcess } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { freePort, TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { Load } from '../support/load.ts';

/** Events per second. `make rolling-restart` sends 1,000. */
const PER_SECOND = Number(process.env['ROLLING_PER_SECOND'] ?? 200);
/** The minimum share of the target rate. The default is 0, because other tests may be running. */
const HELD_RATE = Number(process.env['ROLLING_HELD_RATE'] ?? 0);
const SHOWN_MAX = 10;
const EVENTS_BETWEEN = 1.5 * PER_SECOND;
/** Connections used in turn, so that none is idle for long. */
const CONNECTIONS = { maxSockets: 40, scheduling: 'fifo' } as const;
const SENDERS = 200;

export interface FleetGateway {
  readonly port: number;
  readonly adminPort: number;
  process: TestProcess;
}

export class Fleet {
  readonly redis: TestRedis;
  readonly pki: Pki;
  readonly gateways: readonly FleetGateway[];
  readonly #env: Readonly<Record<string, string>>;

  private constructor(
    redis: TestRedis,
    pki: Pki,
    ports: readonly (readonly [number, number])[],
    env: Readonly<Record<string, string>>,
  ) {
    this.redis = redis;
    this.pki = pki;
    this.#env = env;
    this.gateways = ports.map(([port, adminPort]) => ({ port, adminPort, process: this.#start(port, adminPort) }));
  }

  static async start(sharedPort: boolean, env: Readonly<Record<string, string>>): Promise<Fleet> {
    const [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
    const [one, other, adminOne, adminOther] = await Promise.all([freePort(), freePort(), freePort(), freePort()]);
    const fleet = new Fleet(
      redis,
      pki,
      [
        [one, adminOne],
        [sharedPort ? one : other, adminOther],
      ],
      env,
    );
    await Promise.all(fleet.gateways.map((gateway) => fleet.ready(gateway)));
    return fleet;
  }

  /**
   * Restarts each gateway `times` times. After each restart it waits for `settled` before it restarts the next
   * gateway.
   */
  async restartUnderLoad(
    port: number,
    times: number,
    settled: (gateway: FleetGateway) => Promise<unknown>,
  ): Promise<Load> {
    const producer = await this.pki.producer('shop');
    const client = new TestClient(port, this.pki.authority.certificate, producer, {}, CONNECTIONS);
    const load = new Load(client, 'event', SENDERS, (1_000 * SENDERS) / PER_SECOND, true);
    const more = (): Promise<boolean> => load.more(EVENTS_BETWEEN);
    try {
      await more();
      for (let round = 0; round < times; round += 1) {
        for (const gateway of this.gateways) {
          gateway.process.signal('SIGTERM');
          assert.deepEqual(await gateway.process.exited(), { code: 0, signal: null }, gateway.process.output);
          gateway.process = this.#start(gateway.port, gateway.adminPort);
          await this.ready(gateway);
          await settled(gateway);
          await more();
        }
      }
    } finally {
      // Otherwise the load's timer would keep the process of a failed test running.
      await load.stop();
    }
    return load;
  }

  ready({ adminPort, process }: FleetGateway): Promise<boolean> {
    return eventually(`the gateway with admin port ${adminPort} is ready`, async () => {
      if (process.child.exitCode !== null) throw new Error(process.output);
      return (await fetch(`http://127.0.0.1:${adminPort}/health/ready`)).ok;
    });
  }

  async assertNothingLost(load: Load): Promise<void> {
    // Only counts and a few examples are compared, because comparing 100,000 ids takes too long.
    assert.deepEqual([load.failures.length, ...load.failures.slice(0, SHOWN_MAX)], [0]);
    assert.equal(load.accepted.size, load.sent);
    const entries = await this.redis.entries();
    const queued = new Set(entries.map(({ fields }) => (JSON.parse(fields['body'] ?? '{}') as { id: string }).id));
    const lost = [...load.accepted].filter((id) => !queued.has(id));
    assert.deepEqual([lost.length, ...lost.slice(0, SHOWN_MAX)], [0]);
    assert.deepEqual([entries.length, queued.size], [load.accepted.size, load.accepted.size]);
    if (HELD_RATE > 0)
      assert.ok(load.perSecond >= HELD_RATE * PER_SECOND, `${Math.round(load.perSecond)} of ${PER_SECOND} a second`);
  }

  #start(port: number, adminPort: number): TestProcess {
    return new TestProcess(GATEWAY, [], {
      ...PATIENT,
      ...this.pki.environment,
      INGEST_QUEUE_URI: this.redis.uri,
      INGEST_STATE_DIR: temporaryFolder('ingest-state-'),
      INGEST_GATEWAY_ADDR: `127.0.0.1:${port}`,
      INGEST_ADMIN_ADDR: `127.0.0.1:${adminPort}`,
      ...this.#env,
    });
  }
}
