// Events by way of a dispatcher, and a queue behind it that is frozen.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { partitionOf } from '../../lib/ingest/partition.ts';
import { TestDispatcher } from '../support/dispatcher.ts';
import { idsOf } from '../support/queue-ids.ts';
import { event, type Reply, type TestClient, type TestGateway } from '../support/gateway.ts';
import { eventually } from '../support/scope.ts';
import { assertAlive, assertProblem } from '../support/verdicts.ts';
import { deliver, gatewayOf, pki, shop, SLOW, statusOf } from './dispatcher.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

function assertShed(reply: Reply, id: string): void {
  assert.equal(reply.status, 202, reply.body);
  assert.deepEqual(reply.json, { id, status: 'shed', code: 'INGEST_SHED', retryable: true });
  assert.equal(reply.headers['content-type'], 'application/json');
  assert.ok(Number(reply.headers['retry-after']) >= 1);
  assert.ok(reply.headers['x-request-id']);
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
    assertProblem(await client.find(even[0] ?? ''), 503, 'LOOKUP_UNAVAILABLE');
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

  it('are answered before a dispatcher ends in order, and none is lost by its end', { tags: ['long'] }, async () => {
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
  const shedMs = 2_000;
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

  it(
    'sheds its events after INGEST_SHED_MS at the latest, and at once while its circuit is open; the others go on all the time',
    { tags: ['long'] },
    async () => {
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
        for (const { id, reply } of await Promise.all(even.slice(0, 20).map(timed))) {
          assertShed(reply, id);
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
    },
  );
});

describe('queues that ask for a password', { tags: ['long'] }, () => {
  it(
    'are reached with what the gateway sends, which the dispatcher hands on and has none of itself',
    { tags: ['long'] },
    async () => {
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
    },
  );
});

describe('what a dispatcher has taken', { tags: ['long'] }, () => {
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
