// What one client may take of the gateway, with and without a certificate, by both readers: connections, memory, time.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, describe, it } from 'node:test';
import { event, PATIENT, TestGateway } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { assertAlive } from '../support/verdicts.ts';
import { flood } from '../support/flooder.ts';
import { holdConnections, type StrangerKind } from '../support/strangers.ts';
import { askRaw, postText, requestText } from '../support/wire.ts';

export let redis: TestRedis;
export let pki: Pki;
export let attacker: ClientCertificate;
export let producer: ClientCertificate;

before(async () => {
  [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  attacker = await pki.producer('attacker');
  producer = await pki.producer('producer');
});

/** The program's own, in MB; the gateway runs it in place of its launcher. */
function residentMb(gateway: TestGateway): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${gateway.child.pid}/status`, 'utf8'))?.[1]) / 1024;
}

/**
 * Posts 100 events in at least one second; gives the answers' statuses, and how long 99 of 100 took at most, in
 * milliseconds.
 */
async function posting(gateway: TestGateway, name: string): Promise<{ statuses: number[]; p99Ms: number }> {
  const client = gateway.client(producer);
  const tookMs: number[] = [];
  const asked: Promise<number>[] = [];
  for (let at = 0; at < 100; at += 1) {
    const sinceMs = performance.now();
    asked.push(
      client.post(event(`${name}-${at}`)).then(({ status }) => {
        tookMs.push(performance.now() - sinceMs);
        return status;
      }),
    );
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  const statuses = await Promise.all(asked);
  return { statuses, p99Ms: tookMs.sort((one, other) => one - other)[Math.floor(tookMs.length * 0.99)] ?? 0 };
}

/** How much a gateway may grow under one client's flood, in MB. */
const GROWTH_MB_MAX = 100;

export type Flood = readonly [certificate: () => ClientCertificate | undefined, text: string];

export const large = event('large', { pad: 'x'.repeat(250_000) });

/** Each of the floods by what it has the gateway do, all on one gateway. */
export function describeFloods(kind: string, floods: Readonly<Record<string, Flood>>): void {
  describe(`one client that floods up to 100 connections with ${kind}`, () => {
    let gateway: TestGateway;
    /**
     * Resident memory of the gateway once its heap has the size that it works with (under load it grows from 120 to 260
     * MB).
     */
    let warmMb = 0;
    before(async () => {
      gateway = await TestGateway.start(redis, pki, { ...PATIENT, INGEST_IN_FLIGHT_MAX: '100000' });
      assert.equal((await gateway.client(attacker).post(large)).status, 202);
      const loads = await Promise.all(Array.from({ length: 4 }, () => gateway.socket(producer)));
      for (const [at, load] of loads.entries()) {
        const texts = Array.from({ length: 5_000 }, (_, one) => postText(event(`warm-${kind}-${at}-${one}`)));
        load.write(texts.join(''));
      }
      await eventually(
        'the load is over',
        async () => (await gateway.metric('ingest_accepted_total')) >= 20_000,
        60_000,
      );
      for (const { socket } of loads) socket.destroy();
      warmMb = residentMb(gateway);
    });

    for (const [name, [certificate, text]] of Object.entries(floods)) {
      for (const reads of [false, true]) {
        it(`with ${name}, ${reads ? 'reading' : 'not reading'} the answers, takes < ${GROWTH_MB_MAX} MB, and another producer is not refused`, async (t) => {
          const { cert, key } = certificate() ?? {};
          let most = 0;
          const watch = setInterval(() => (most = Math.max(most, residentMb(gateway))), 100);
          atEnd(() => clearInterval(watch));
          const flooding = await flood({
            connections: reads ? 20 : 100,
            text,
            reads,
            tls: { port: gateway.port, ca: pki.authority.certificate, cert, key },
          });
          const { statuses, p99Ms } = await posting(gateway, `flood-${name}-${reads}`);
          clearInterval(watch);
          await flooding.end();
          t.diagnostic(`${warmMb.toFixed()} → ${most.toFixed()} MB; p99 of the other producer: ${p99Ms.toFixed()} ms`);
          assert.deepEqual([...new Set(statuses)], [202]);
          assert.ok(most - warmMb < GROWTH_MB_MAX, `${warmMb.toFixed()} → ${most.toFixed()} MB`);
          await assertAlive(gateway);
        });
      }
    }
  });
}

/** The first request decides which reader has the connection. */
export function describeUnread(first: 'GET' | 'HEAD'): void {
  describe('a client that does not read its answers', () => {
    it(`is idle, and cut off (${first === 'GET' ? 'own reader' : 'node:http'})`, async () => {
      const gateway = await TestGateway.start(redis, pki, { ...PATIENT, INGEST_IDLE_TIMEOUT_MS: '500' });
      const client = gateway.client(attacker);
      assert.equal((await client.post(event('unread', { pad: 'x'.repeat(250_000) }))).status, 202);
      client.close();
      const connection = await gateway.socket(attacker);
      connection.socket.pause();
      connection.write(requestText(`${first} /health/live`) + requestText('GET /events/unread').repeat(200));
      await eventually('it is cut off', async () => (await gateway.metric('ingest_connections')) === 1, 60_000);
    });
  });
}

const STRANGERS: Readonly<Record<StrangerKind, string>> = {
  silent: 'bare TCP connections that never begin a handshake',
  stalled: 'TCP connections with half of a handshake',
  nameless: 'TLS connections without a certificate',
};

/** `perAddress`: INGEST_CONNECTIONS_PER_ADDRESS_MAX. */
export function itStandsStrangers(perAddress: '0' | '20', kinds: readonly StrangerKind[]): void {
  it(`do not keep a producer out (${perAddress === '0' ? 'no limit' : `${perAddress} connections`} for an address), nor cut one that is known`, async (t) => {
    const gateway = await TestGateway.start(redis, pki, {
      ...PATIENT,
      INGEST_CONNECTIONS_MAX: '60',
      INGEST_CONNECTIONS_PER_ADDRESS_MAX: perAddress,
    });
    const known = await gateway.socket(producer);
    assert.equal((await askRaw(known, postText(event(`known-${perAddress}`)))).status, 202);
    const cut = async (): Promise<number> => {
      const { body } = await askRaw(known, requestText('GET /metrics'));
      return Number(/reason="limit"\} (\d+)/.exec(body)?.[1] ?? 0);
    };
    for (const kind of kinds) {
      const words = STRANGERS[kind];
      const before = await cut();
      // More than there is room for, so that one is always on its way.
      const strangers = holdConnections(gateway.port, 80, kind);
      await eventually(`${words} were cut`, async () => (await cut()) > before + 20);
      let refused = 0;
      for (let at = 0; at < 30; at += 1) {
        const client = gateway.client(producer);
        const asked = client.post(event(`among-${kind}-${perAddress}-${at}`)).catch(() => undefined);
        if ((await asked)?.status !== 202) refused += 1;
        client.close();
      }
      assert.equal(`${refused} of 30 among ${words}`, `0 of 30 among ${words}`);
      assert.equal((await askRaw(known, postText(event(`known-${kind}-${perAddress}`)))).status, 202);
      t.diagnostic(`${words}: ${(await cut()) - before} cut`);
      await strangers.end();
    }
  });
}
