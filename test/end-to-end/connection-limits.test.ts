import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, describe, it } from 'node:test';
import { connect } from 'node:net';
import { event, TestGateway, type RawConnection } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { assertAlive } from '../support/verdicts.ts';
import { flood } from '../support/flooder.ts';
import { holdConnections, type StrangerKind } from '../support/strangers.ts';
import { askRaw, postText, requestText } from '../support/wire.ts';

let redis: TestRedis;
let pki: Pki;
let attacker: ClientCertificate;
let producer: ClientCertificate;

before(async () => {
  [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  attacker = await pki.producer('attacker');
  producer = await pki.producer('producer');
});

function residentMb(gateway: TestGateway): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${gateway.child.pid}/status`, 'utf8'))?.[1]) / 1024;
}

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

const GROWTH_MB_MAX = 100;

type Flood = readonly [certificate: () => ClientCertificate | undefined, text: string];

const large = event('large', { pad: 'x'.repeat(250_000) });

function describeFloods(kind: string, floods: Readonly<Record<string, Flood>>): void {
  describe(`one client that floods up to 100 connections with ${kind}`, { tags: ['long'] }, () => {
    let gateway: TestGateway;
    /** Resident memory after a warm-up load, which grows the heap from 120 to 260 MB. */
    let warmMb = 0;
    before(async () => {
      gateway = await TestGateway.start(redis, pki, { INGEST_IN_FLIGHT_MAX: '100000' });
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

function describeUnread(first: 'GET' | 'HEAD', tags: string[] = []): void {
  describe('a client that does not read its answers', { tags }, () => {
    it(`is disconnected as idle (${first === 'GET' ? 'own reader' : 'node:http'})`, async () => {
      const gateway = await TestGateway.start(redis, pki, { INGEST_IDLE_TIMEOUT_MS: '500' });
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

function itStandsStrangers(perAddress: '0' | '20', kinds: readonly StrangerKind[], tags: string[] = []): void {
  it(
    `do not keep a producer out (${perAddress === '0' ? 'no limit' : `${perAddress} connections`} for an address), nor cut one that is known`,
    { tags },
    async (t) => {
      const gateway = await TestGateway.start(redis, pki, {
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
        // There are more strangers than the gateway has room for, so one of them is always waiting.
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
    },
  );
}

describeUnread('GET');

it('1,000 clients that connect at the same moment all have their event accepted', { tags: ['long'] }, async () => {
  const gateway = await TestGateway.start(redis, pki);
  const statuses = await Promise.all(
    Array.from({ length: 1_000 }, async (_, at) => {
      const connection = await gateway.socket(producer);
      const { status } = await askRaw(connection, postText(event(`among-1,000-${at}`)));
      connection.socket.destroy();
      return status;
    }),
  );
  assert.deepEqual([...new Set(statuses)], [202]);
  await assertAlive(gateway);
});

describe('strangers that hold every connection and reconnect when they are cut off', { tags: ['long'] }, () => {
  itStandsStrangers('20', ['silent', 'nameless']);

  it(
    'are as many from one address as a quarter of all connections, unless that is set',
    { tags: ['long'] },
    async () => {
      const gateway = await TestGateway.start(redis, pki, {
        INGEST_CONNECTIONS_MAX: '40',
        INGEST_REQUEST_TIMEOUT_MS: '120000',
      });
      const strangers: RawConnection[] = [];
      for (let at = 0; at < 11; at += 1) strangers.push(await gateway.socket());
      await eventually('one is cut', () => strangers.filter(({ closed }) => closed).length === 1);
      const known = await gateway.socket(producer);
      assert.equal((await askRaw(known, postText(event('a-quarter')))).status, 202);

      for (const { socket } of strangers) socket.destroy();
      await eventually('they are gone', async () =>
        /^ingest_connections 1$/m.test((await askRaw(known, requestText('GET /metrics'))).body),
      );
      const silent = Array.from({ length: 11 }, () => connect(gateway.port, '127.0.0.1'));
      atEnd(() => silent.forEach((socket) => socket.destroy()));
      for (const socket of silent) socket.on('error', () => undefined).resume();
      await eventually('one is cut that never begins a handshake', () => silent.some(({ closed }) => closed));
      assert.equal((await askRaw(known, postText(event('a-quarter-still')))).status, 202);
      assert.equal(silent.filter(({ closed }) => closed).length, 1);
    },
  );

  itStandsStrangers('0', ['silent', 'stalled', 'nameless'], ['long']);
});

describe('if one producer holds all connections', { tags: ['long'] }, () => {
  it('another producer can connect, and so can a health probe', async () => {
    const gateway = await TestGateway.start(redis, pki, { INGEST_CONNECTIONS_MAX: '20' });
    const greedy: RawConnection[] = [];
    for (let at = 0; at < 20; at += 1) {
      const connection = await gateway.socket(attacker);
      greedy.push(connection);
      assert.equal((await askRaw(connection, postText(event(`greedy-${at}`)))).status, 202);
    }
    for (let at = 0; at < 5; at += 1) {
      const other = await gateway.socket(producer);
      assert.equal((await askRaw(other, postText(event(`other-${at}`)))).status, 202);
      const nobody = await gateway.socket();
      assert.equal((await askRaw(nobody, requestText('GET /health/live'))).status, 200);
      nobody.socket.destroy();
    }
    await eventually('one of its connections went for each', () => greedy.filter(({ closed }) => closed).length >= 6);
    const left = greedy.filter(({ closed }) => !closed);
    assert.equal(left.length, 14);
    for (const [at, connection] of left.entries())
      assert.equal((await askRaw(connection, postText(event(`greedy-again-${at}`)))).status, 202);
    assert.ok((await gateway.metric('ingest_tls_handshake_failures_total', { reason: 'limit' })) >= 6);
  });
});

const FLOODS: Readonly<Record<string, Readonly<Record<string, Flood>>>> = {
  'short answers': {
    'metrics, from nobody, by node:http': [
      () => undefined,
      `${requestText('HEAD /health/live')}${'GET /metrics HTTP/1.1\r\nHost: g\r\n\r\n'.repeat(2_500)}`,
    ],
    'metrics, from nobody': [() => undefined, 'GET /metrics HTTP/1.1\r\nHost: g\r\n\r\n'.repeat(2_500)],
    'requests that are refused': [() => undefined, requestText('GET /x').repeat(2_000)],
    'requests that are refused, by node:http': [() => undefined, requestText('PUT /x').repeat(2_000)],
  },
  'look-ups': {
    'look-ups of a large event': [() => attacker, 'GET /events/large HTTP/1.1\r\nHost: g\r\n\r\n'.repeat(2_500)],
    'look-ups of a large event, by node:http': [
      () => attacker,
      `${requestText('HEAD /health/live')}${'GET /events/large HTTP/1.1\r\nHost: g\r\n\r\n'.repeat(2_500)}`,
    ],
  },
};

for (const [kind, floods] of Object.entries(FLOODS)) describeFloods(kind, floods);

describeUnread('HEAD', ['long']);
