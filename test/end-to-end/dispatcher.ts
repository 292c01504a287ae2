// Gateways in front of a dispatcher in front of two Redis servers, as real processes (RFC 014).
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { partitionOf } from '../../lib/ingest/partition.ts';
import { idsOf, TestDispatcher } from '../support/dispatcher.ts';
import { event, PATIENT, TestClient, TestGateway, type Reply } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { assertAlive, assertProblem } from '../support/verdicts.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

/** Long: on a busy machine the default would shed what is only slow. */
const SLOW = { INGEST_SHED_MS: '4000' } as const;

/** Restarts of the dispatcher included, on a busy machine. */
const DELIVERED_WITHIN_MS = 90_000;

let pki: Pki;
let shop: ClientCertificate;
before(async () => {
  pki = await Pki.create();
  shop = await pki.producer('shop');
});

const gatewayOf = (dispatcher: TestDispatcher, env: Readonly<Record<string, string>> = {}): Promise<TestGateway> =>
  TestGateway.start(dispatcher, pki, { ...PATIENT, ...SLOW, ...env });

function assertShed(reply: Reply, id: string): void {
  assert.equal(reply.status, 202, reply.body);
  assert.deepEqual(reply.json, { id, status: 'shed', code: 'INGEST_SHED', retryable: true });
  assert.equal(reply.headers['content-type'], 'application/json');
  assert.ok(Number(reply.headers['retry-after']) >= 1);
  assert.ok(reply.headers['x-request-id']);
}

const statusOf = (reply: Reply): unknown => reply.json?.['status'];

/** Sends as a producer should, until the event is accepted; gives every answer. */
async function deliver(client: TestClient, id: string): Promise<Reply[]> {
  const replies: Reply[] = [];
  await eventually(
    `${id} is accepted`,
    async () => {
      const reply = await client.post(event(id)).catch(() => undefined);
      if (reply === undefined) return false;
      replies.push(reply);
      if (statusOf(reply) !== 'accepted') assert.equal(reply.json?.['retryable'], true, reply.body);
      return statusOf(reply) === 'accepted';
    },
    DELIVERED_WITHIN_MS,
  );
  return replies;
}

describe('events by way of a dispatcher', () => {
  let dispatcher: TestDispatcher;
  let gateway: TestGateway;
  let client: TestClient;
  before(async () => {
    dispatcher = await TestDispatcher.start({ env: SLOW });
    gateway = await gatewayOf(dispatcher);
    client = gateway.client(shop);
  });

  it('go to the queue that the hash of their id names, and are found, repeated and refused as without one', async () => {
    const ids = [
      ...Array.from({ length: 40 }, (_, at) => `plain-${at}`),
      'é'.repeat(200),
      '\u{1F600}',
      'x'.repeat(256),
    ];
    const replies = await Promise.all(ids.map((id) => client.post(event(id))));
    for (const [at, reply] of replies.entries()) assert.deepEqual(reply.json, { id: ids[at], status: 'accepted' });
    for (const queue of [0, 1] as const) {
      const bodies = (await dispatcher.redis[queue].entries()).map(({ fields }) => fields['body'] ?? '');
      const wanted = ids.filter((id) => partitionOf(id, 2) === queue).map((id) => event(id));
      assert.deepEqual(bodies.toSorted(), wanted.toSorted());
    }
    const other = gateway.client(await pki.producer('other'));
    for (const id of ids.slice(-6)) {
      assert.deepEqual((await client.post(event(id))).json, { id, status: 'accepted', duplicate: true });
      assert.equal((await client.post(event(id, { n: 1 }))).json?.['differs'], true);
      assertProblem(await other.post(event(id)), 409, 'EVENT_ID_CONFLICT');
      assert.deepEqual((await client.find(id)).json?.['event'], { id, type: 'test.event' });
      assertProblem(await other.find(id), 404, 'EVENT_NOT_FOUND');
    }
    assertProblem(await client.find('never sent'), 404, 'EVENT_NOT_FOUND');
    const [even, odd] = await Promise.all([dispatcher.redis[0].length(), dispatcher.redis[1].length()]);
    const accepted = (queue: string) =>
      dispatcher.metric(`ingest_dispatched_total{queue="${queue}",outcome="accepted"}`);
    assert.deepEqual([await accepted('ingest-a'), await accepted('ingest-b')], [even, odd]);
    assert.equal(even + odd, ids.length);
  });

  it('are shed while their queue is away, and only those; readiness and metrics say which queue it is', async () => {
    const [shedBefore, errorsBefore] = [
      await gateway.metric('ingest_shed_total'),
      await gateway.metric('ingest_errors_total'),
    ];
    await dispatcher.redis[0].signal('SIGKILL');
    await eventually(
      'the dispatcher knows',
      async () => (await dispatcher.metric('ingest_queue_up{queue="ingest-a"}')) === 0,
    );
    assert.equal(await dispatcher.metric('ingest_queue_up{queue="ingest-b"}'), 1);
    assert.equal((await dispatcher.ready()).status, 200);
    const [even, odd] = [idsOf(0, 'away', 20), idsOf(1, 'away', 20)];
    for (const id of even) assertShed(await client.post(event(id)), id);
    for (const id of odd) assert.deepEqual((await client.post(event(id))).json, { id, status: 'accepted' });
    assertProblem(await client.find(even[0] ?? ''), 503, 'QUEUE_UNAVAILABLE');
    assert.equal((await client.find(odd[0] ?? '')).status, 200);
    assert.equal(await gateway.metric('ingest_shed_total'), shedBefore + even.length);
    assert.equal(await gateway.metric('ingest_errors_total'), errorsBefore + 1, 'the look-up alone is an error');
    assert.equal(await dispatcher.metric('ingest_dispatched_total{queue="ingest-a",outcome="shed"}'), even.length);
    await dispatcher.redis[0].start();
    for (const id of even) await deliver(client, id);
    assert.equal(await dispatcher.metric('ingest_queue_up{queue="ingest-a"}'), 1);
  });

  it('are refused with 503, and not shed, while the dispatcher itself is away', async () => {
    const shed = await gateway.metric('ingest_shed_total');
    await dispatcher.program.kill();
    await eventually(
      'the gateway is not ready',
      async () => (await client.ask({ path: '/health/ready' })).status === 503,
    );
    for (const id of [...idsOf(0, 'nobody', 3), ...idsOf(1, 'nobody', 3)])
      assertProblem(await client.post(event(id)), 503, 'QUEUE_UNAVAILABLE');
    assert.equal(await gateway.metric('ingest_shed_total'), shed);
    await dispatcher.restart();
    for (const id of [...idsOf(0, 'nobody', 3), ...idsOf(1, 'nobody', 3)]) await deliver(client, id);
    await assertAlive(gateway);
  });

  it('are answered before a dispatcher ends in order, and none is lost by its end', async () => {
    const ids = Array.from({ length: 400 }, (_, at) => `ending-${at}`);
    const delivered = Promise.all(ids.map((id) => deliver(client, id)));
    dispatcher.program.signal('SIGTERM');
    assert.equal(await dispatcher.program.ended, 0, dispatcher.program.output);
    await dispatcher.restart();
    await delivered;
    const bodies = (await Promise.all(dispatcher.redis.map((redis) => redis.entries()))).flat();
    const counts = new Map<string, number>();
    for (const { fields } of bodies) counts.set(fields['body'] ?? '', (counts.get(fields['body'] ?? '') ?? 0) + 1);
    for (const id of ids) assert.equal(counts.get(event(id)), 1, id);
  });
});

describe('a queue that is frozen', () => {
  const shedMs = 1_000;
  let dispatcher: TestDispatcher;
  let client: TestClient;
  before(async () => {
    dispatcher = await TestDispatcher.start({ env: { INGEST_SHED_MS: String(shedMs) } });
    client = (await gatewayOf(dispatcher, { INGEST_SHED_MS: String(shedMs) })).client(shop);
  });

  const timed = async (id: string): Promise<{ id: string; reply: Reply; ms: number }> => {
    const start = performance.now();
    const reply = await client.post(event(id));
    return { id, reply, ms: performance.now() - start };
  };

  it('sheds its events after INGEST_SHED_MS at the latest, and at once while its circuit is open; the others go on all the time', async () => {
    const [even, odd] = [idsOf(0, 'frozen', 60), idsOf(1, 'frozen', 10_000)];
    await Promise.all([...idsOf(0, 'warm', 4), ...idsOf(1, 'warm', 4)].map((id) => deliver(client, id)));
    let frozen = true;
    await dispatcher.redis[0].signal('SIGSTOP');
    const others = (async () => {
      const seen: number[] = [];
      for (const id of odd) {
        if (!frozen) break;
        const { reply, ms } = await timed(id);
        assert.equal(statusOf(reply), 'accepted', reply.body);
        seen.push(ms);
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      return seen.sort((a, b) => a - b);
    })();
    try {
      for (const { id, reply, ms } of await Promise.all(even.slice(0, 20).map(timed))) {
        assertShed(reply, id);
        assert.ok(ms < shedMs + 1_500, `${ms} ms until the circuit was open`);
      }
      let slowest = 0;
      for (const id of even.slice(20)) {
        const { reply, ms } = await timed(id);
        assertShed(reply, id);
        slowest = Math.max(slowest, ms);
      }
      assert.ok(slowest < shedMs / 2, `${slowest} ms while it was open`);
    } finally {
      frozen = false;
      await dispatcher.redis[0].signal('SIGCONT');
    }
    const seen = await others;
    const p99 = seen[Math.floor(seen.length * 0.99)] ?? 0;
    assert.ok(seen.length > 20 && p99 < shedMs / 2, `p99 of ${seen.length} events of the other queue: ${p99} ms`);
    for (const id of even) await deliver(client, id);
    const stored = (await dispatcher.redis[0].entries()).map(({ fields }) => fields['body']);
    for (const id of even) assert.equal(stored.filter((body) => body === event(id)).length, 1, id);
  });
});

describe('a gateway of a dispatcher over TLS', () => {
  let server: Pki;
  let dispatcher: TestDispatcher;
  before(async () => {
    server = await Pki.create();
    dispatcher = await TestDispatcher.start({
      env: { ...SLOW, ...server.environment, INGEST_DISPATCH_CLIENTS: 'gateway-1 gateway-2' },
    });
  });

  /** The environment of a gateway with this certificate, which trusts the dispatcher's authority. */
  async function env(names: readonly string[], authority: Pki, more = {}): Promise<Record<string, string>> {
    const issued = await authority.authority.issue({
      commonName: 'gateway',
      dnsNames: ['localhost', ...names],
      addresses: ['127.0.0.1'],
      server: true,
      client: true,
      ...more,
    });
    const folder = temporaryFolder('ingest-gateway-tls-');
    const write = (name: string, content: string): string => {
      writeFileSync(join(folder, name), content);
      return join(folder, name);
    };
    return {
      ...pki.environment,
      INGEST_QUEUE_URI: `dispatchers://127.0.0.1:${dispatcher.port}`,
      INGEST_TLS_CERT: write('cert.pem', issued.certificate),
      INGEST_TLS_KEY: write('key.pem', issued.key),
      NODE_EXTRA_CA_CERTS: server.path('ca.pem'),
    };
  }

  const refused = async (wrong: Readonly<Record<string, string>>, why: RegExp): Promise<void> => {
    const gateway = new Program('ingest-gateway', { env: { INGEST_GATEWAY_ADDR: '127.0.0.1:0', ...wrong } });
    assert.equal(await gateway.ended, 4, gateway.output);
    assert.match(gateway.output, why);
  };

  it('gets in with a certificate whose name is admitted', async () => {
    const issued = await env(['gateway-2'], server);
    const gateway = await TestGateway.start(dispatcher, pki, { ...PATIENT, ...SLOW, ...issued });
    const client = new TestClient(gateway.port, server.authority.certificate, shop, {});
    await deliver(client, 'over-tls');
    assert.equal((await client.find('over-tls')).status, 200);
  });

  it('is told why not: another name, another authority, none, or no TLS at all', async () => {
    await Promise.all([
      refused(
        await env(['gateway-3'], server),
        /NOPERM the client certificate names nobody who is admitted.*gateway-3/,
      ),
      refused(await env(['gateway-1'], pki), /NOPERM the client certificate is not accepted/),
      refused(await env(['gateway-1'], server, { client: false }), /NOPERM .*INVALID_PURPOSE/),
      refused(
        { ...(await env(['gateway-1'], server)), INGEST_QUEUE_URI: `rediss://127.0.0.1:${dispatcher.port}` },
        /NOPERM a client certificate is required/,
      ),
      refused({ ...(await env(['gateway-1'], server)), INGEST_QUEUE_URI: dispatcher.uri }, /takes no events/),
    ]);
    assert.deepEqual(
      [await dispatcher.redis[0].length(), await dispatcher.redis[1].length()].reduce((a, b) => a + b),
      1,
    );
  });

  it('is thrown out when its authority is not trusted any more', async () => {
    const issued = await env(['gateway-1'], server);
    const gateway = await TestGateway.start(dispatcher, pki, { ...PATIENT, ...SLOW, ...issued });
    const client = new TestClient(gateway.port, server.authority.certificate, shop, {});
    await deliver(client, 'trusted');
    const other = await Pki.create();
    server.write('ca.pem', other.authority.certificate);
    await eventually('events are refused', async () => (await client.post(event('trusted'))).status === 503);
    assert.ok((await dispatcher.metric('ingest_tls_reloads_total')) >= 1);
    server.write('ca.pem', server.authority.certificate);
    await eventually('and taken again', async () => (await client.post(event('trusted'))).status === 202);
  });
});

describe('queues that ask for a password', () => {
  it('are reached with what the gateway sends, which the dispatcher hands on and has none of itself', async () => {
    const redis = await Promise.all([TestRedis.start(), TestRedis.start()]);
    for (const server of redis) {
      await server.command('ACL', 'SETUSER', 'shop', 'on', '>p@ss/w:rd', '~*', '+@all');
      await server.command('CONFIG', 'SET', 'requirepass', 'another');
    }
    const dispatcher = await TestDispatcher.start({ redis, env: SLOW });
    assert.equal((await dispatcher.ready()).status, 200, 'it waits for a gateway');
    const uri = (password: string): string =>
      `dispatcher://shop:${encodeURIComponent(password)}@127.0.0.1:${dispatcher.port}`;
    const wrong = new Program('ingest-gateway', {
      env: { INGEST_GATEWAY_ADDR: '127.0.0.1:0', INGEST_QUEUE_URI: uri('wrong'), ...pki.environment },
    });
    assert.equal(await wrong.ended, 4, wrong.output);
    assert.match(wrong.output, /WRONGPASS/);
    const gateway = await gatewayOf(dispatcher, { INGEST_QUEUE_URI: uri('p@ss/w:rd') });
    const client = gateway.client(shop);
    for (const id of [...idsOf(0, 'auth', 3), ...idsOf(1, 'auth', 3)]) {
      await deliver(client, id);
      assert.equal((await client.find(id)).status, 200);
    }
    assert.equal(await dispatcher.metric('ingest_queue_up{queue="ingest-a"}'), 1);
    for (const program of [dispatcher.program, gateway]) assert.doesNotMatch(program.output, /p@ss|p%40ss/);
  });
});

describe('what a dispatcher has taken', () => {
  it('lands once each, though it is killed again and again under load, by consumers of both queues', async () => {
    const dispatcher = await TestDispatcher.start({ env: SLOW });
    const store = sqliteStore();
    const consumers = [0, 1].map(
      () =>
        new Program('ingest-consumer', {
          env: {
            INGEST_QUEUE_URI: dispatcher.queueUris,
            INGEST_WAREHOUSE_URI: store.uri,
            INGEST_CONSUMER_ADDR: '127.0.0.1:0',
          },
        }),
    );
    const gateways = await Promise.all([gatewayOf(dispatcher), gatewayOf(dispatcher)]);
    await Promise.all(consumers.map((consumer) => consumer.listening()));
    const clients = gateways.map((gateway) => gateway.client(shop));
    const ids = Array.from({ length: 1_200 }, (_, at) => `killed-${at}`);
    let next = 0;
    const workers = Array.from({ length: 12 }, async (_, worker) => {
      for (let id = ids[next++]; id !== undefined; id = ids[next++])
        await deliver(clients[worker % clients.length] ?? assert.fail(), id);
    });
    for (const share of [0.25, 0.5, 0.75]) {
      await eventually('some are sent', () => next > share * ids.length);
      await dispatcher.program.kill();
      await dispatcher.restart();
    }
    await Promise.all(workers);
    await eventually('all have landed', async () => (await store.count()) >= ids.length, 60_000);
    const rows = await store.events();
    assert.deepEqual(rows.map(({ id }) => id).sort(), ids.toSorted());
    for (const { id, body } of rows) assert.equal(body, event(id));
    assert.deepEqual(await store.quarantine(), []);
    for (const gateway of gateways) await assertAlive(gateway);
    await Promise.all(consumers.map((consumer) => (consumer.signal('SIGTERM'), consumer.ended)));
  });
});
