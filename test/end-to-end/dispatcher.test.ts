// Gateways in front of a dispatcher in front of two Redis servers, as real processes (RFC 014).
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { partitionOf } from '../../lib/ingest/partition.ts';
import { idsOf, TestDispatcher } from '../support/dispatcher.ts';
import { event, PATIENT, TestGateway, type Reply, type TestClient } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { eventually } from '../support/scope.ts';
import { assertAlive, assertProblem } from '../support/verdicts.ts';

/** Long: on a busy machine the default would shed what is only slow. */
const SLOW = { INGEST_SHED_MS: '4000' } as const;

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
  await eventually(`${id} is accepted`, async () => {
    const reply = await client.post(event(id)).catch(() => undefined);
    if (reply === undefined) return false;
    replies.push(reply);
    if (statusOf(reply) !== 'accepted') assert.equal(reply.json?.['retryable'], true, reply.body);
    return statusOf(reply) === 'accepted';
  });
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
  it('sheds its events after INGEST_SHED_MS at the latest, and at once while its circuit is open, until it answers again', async () => {
    const shedMs = 1_000;
    const dispatcher = await TestDispatcher.start({ env: { INGEST_SHED_MS: String(shedMs) } });
    const gateway = await gatewayOf(dispatcher, { INGEST_SHED_MS: String(shedMs) });
    const client = gateway.client(shop);
    const [even, odd] = [idsOf(0, 'frozen', 60), idsOf(1, 'frozen', 60)];
    await Promise.all([client.post(event('warm')), client.post(event('up'))]);
    await dispatcher.redis[0].signal('SIGSTOP');
    try {
      const timed = async (id: string): Promise<{ reply: Reply; ms: number }> => {
        const start = performance.now();
        const reply = await client.post(event(id));
        return { reply, ms: performance.now() - start };
      };
      const first = await Promise.all(even.slice(0, 20).map(timed));
      for (const [at, { reply, ms }] of first.entries()) {
        assertShed(reply, even[at] ?? '');
        assert.ok(ms < shedMs + 1_500, `${ms} ms until the circuit was open`);
      }
      let slowest = 0;
      for (let at = 20; at < even.length; at += 1) {
        const { reply, ms } = await timed(even[at] ?? '');
        assertShed(reply, even[at] ?? '');
        slowest = Math.max(slowest, ms);
        assert.equal(statusOf(await client.post(event(odd[at] ?? ''))), 'accepted');
      }
      assert.ok(slowest < shedMs / 2, `${slowest} ms while it was open`);
    } finally {
      await dispatcher.redis[0].signal('SIGCONT');
    }
    for (const id of even) await deliver(client, id);
    const stored = (await dispatcher.redis[0].entries()).map(({ fields }) => fields['body']);
    for (const id of even) assert.equal(stored.filter((body) => body === event(id)).length, 1, id);
  });
});
