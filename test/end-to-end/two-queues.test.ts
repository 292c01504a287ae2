// With INGEST_QUEUE_URI=dispatcher://a,b, one gateway uses two queues (RFC 014).
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { partitionOf } from '../../lib/ingest/partition.ts';
import { event, TestGateway, type Reply, type TestClient } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { Program, type ProgramName } from '../support/program.ts';
import { freePort, TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { assertProblem } from '../support/verdicts.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

const STREAMS = ['ingest-a', 'ingest-b'] as const;
/** The default limit would shed slow events on a busy machine. */
const SLOW = { INGEST_SHED_MS: '5000' } as const;

const pki = await Pki.create();
const shop = await pki.producer('shop');
const servers = await Promise.all([TestRedis.start(), TestRedis.start()]);

const uriOf = (even: number, odd: number, user = ''): string =>
  `dispatcher://${user}127.0.0.1:${even},127.0.0.1:${odd}`;

const gatewayOf = (uri: string, env: Readonly<Record<string, string>> = {}): Promise<TestGateway> =>
  TestGateway.start({ uri }, pki, { INGEST_ENQUEUE_TIMEOUT_MS: '', ...SLOW, ...env });

/** Returns the first `count` ids that belong to queue 0 (`ingest-a`) or queue 1 (`ingest-b`). */
function idsOf(queue: 0 | 1, prefix: string, count: number): string[] {
  const ids: string[] = [];
  for (let at = 0; ids.length < count; at += 1)
    if (partitionOf(`${prefix}-${at}`, 2) === queue) ids.push(`${prefix}-${at}`);
  return ids;
}

function assertShed(reply: Reply, id: string): void {
  assert.equal(reply.status, 202, reply.body);
  assert.deepEqual(reply.json, { id, status: 'shed', code: 'INGEST_SHED', retryable: true });
  assert.ok(Number(reply.headers['retry-after']) >= 1);
}

const deliver = (client: TestClient, id: string): Promise<Reply> =>
  eventually(`${id} is accepted`, async () => {
    const reply = await client.post(event(id)).catch(() => undefined);
    if (reply?.json?.['status'] === 'accepted') return reply;
    if (reply !== undefined) assert.equal(reply.json?.['retryable'], true, reply.body);
    return undefined;
  });

async function assertOnce(ids: readonly string[]): Promise<void> {
  const stored = (await servers[0].entries('ingest-a')).map(({ fields }) => fields['body']);
  for (const id of ids) assert.equal(stored.filter((body) => body === event(id)).length, 1, id);
}

describe('a gateway with two queues', async () => {
  const uri = uriOf(servers[0].port, servers[1].port);
  const gateway = await gatewayOf(uri);
  const client = gateway.client(shop);

  it('uses the queue that the hash of the id selects, for events, lookups, repeats and conflicts', async () => {
    const ids = [...Array.from({ length: 40 }, (_, at) => `plain-${at}`), 'é'.repeat(200), 'x'.repeat(256)];
    const replies = await Promise.all(ids.map((id) => client.post(event(id))));
    for (const [at, reply] of replies.entries()) assert.deepEqual(reply.json, { id: ids[at], status: 'accepted' });
    for (const at of [0, 1] as const) {
      const bodies = (await servers[at].entries(STREAMS[at])).map(({ fields }) => fields['body'] ?? '');
      const wanted = ids.filter((id) => partitionOf(id, 2) === at).map((id) => event(id));
      assert.deepEqual(bodies.toSorted(), wanted.toSorted());
      assert.deepEqual(await servers[at].command('KEYS', 'ingest*'), [STREAMS[at]]);
    }
    const other = gateway.client(await pki.producer('other'));
    for (const id of ids.slice(-4)) {
      assert.deepEqual((await client.post(event(id))).json, { id, status: 'accepted', duplicate: true });
      assertProblem(await other.post(event(id)), 409, 'EVENT_ID_CONFLICT');
      assert.deepEqual((await client.find(id)).json?.['event'], { id, type: 'test.event' });
    }
    assertProblem(await client.find('never sent'), 404, 'EVENT_NOT_FOUND');
  });

  it('sheds the events of a queue that is down, immediately, and accepts them once it is back', async () => {
    const [shed, errors] = [await gateway.metric('ingest_shed_total'), await gateway.metric('ingest_errors_total')];
    await servers[0].signal('SIGKILL');
    await eventually('it is known', async () => (await gateway.metric('ingest_queue_up', { partition: '0' })) === 0);
    await gateway.line(/"partition":0,.*(ECONNREFUSED|closed)/);
    const ready = await client.ask({ path: '/health/ready' });
    assert.deepEqual([ready.status, ready.json?.['unavailable']], [200, [0]]);
    assert.match(JSON.stringify(ready.json?.['reasons']), /^\{"0":".*(ECONNREFUSED|closed)/);
    assert.equal(await gateway.metric('ingest_queue_up', { partition: '1' }), 1);
    const [even, odd] = [idsOf(0, 'down', 20), idsOf(1, 'down', 20)];
    const start = performance.now();
    for (const id of even) assertShed(await client.post(event(id)), id);
    assert.ok(performance.now() - start < Number(SLOW.INGEST_SHED_MS), 'they wait for nothing');
    for (const id of odd) assert.deepEqual((await client.post(event(id))).json, { id, status: 'accepted' });
    assertProblem(await client.find(even[0] ?? ''), 503, 'LOOKUP_UNAVAILABLE');
    assert.equal((await client.find(odd[0] ?? '')).status, 200);
    assert.equal(await gateway.metric('ingest_shed_total'), shed + even.length);
    assert.equal(await gateway.metric('ingest_errors_total'), errors + 1, 'the failed look-up');
    await servers[0].start();
    for (const id of even) await deliver(client, id);
    await assertOnce(even);
  });

  it('answers within INGEST_SHED_MS while a queue is frozen, and a repeat is accepted or a duplicate', async () => {
    const shedMs = 500;
    const frozen = await gatewayOf(uri, { INGEST_SHED_MS: String(shedMs) });
    const impatient = frozen.client(shop);
    const [even, odd] = [idsOf(0, 'frozen', 6), idsOf(1, 'frozen', 6)];
    await Promise.all([...idsOf(0, 'warm', 4), ...idsOf(1, 'warm', 4)].map((id) => deliver(impatient, id)));
    const before = await frozen.metric('ingest_shed_total');
    await servers[0].signal('SIGSTOP');
    try {
      for (const [at, id] of even.entries()) {
        const start = performance.now();
        assertShed(await impatient.post(event(id)), id);
        assert.ok(performance.now() - start < 6 * shedMs, `event ${at}`);
      }
      for (const id of odd) assert.equal((await deliver(impatient, id)).json?.['status'], 'accepted');
      assert.ok((await frozen.metric('ingest_shed_total')) >= before + even.length);
    } finally {
      await servers[0].signal('SIGCONT');
    }
    for (const id of even) await deliver(impatient, id);
    await assertOnce(even);
  });

  const refused = async (name: ProgramName, to: string, words: RegExp, args: readonly string[] = []) => {
    const env = { INGEST_GATEWAY_ADDR: '127.0.0.1:0', INGEST_QUEUE_URI: to, INGEST_WAREHOUSE_URI: sqliteStore().uri };
    const program = new Program(name, { env: { ...env, ...pki.environment }, args });
    assert.equal(await program.ended, 2, program.output);
    assert.match(program.output, words);
  };
  const swapped = uriOf(servers[1].port, servers[0].port);

  it('exits with 2 if the hosts are swapped', () => refused('ingest-gateway', swapped, /the hosts are swapped/));

  it('is not ready while both queues are down', async () => {
    await Promise.all(servers.map((server) => server.signal('SIGKILL')));
    await eventually('it knows', async () => (await client.ask({ path: '/health/ready' })).status === 503);
    for (const id of [...idsOf(0, 'none', 2), ...idsOf(1, 'none', 2)]) assertShed(await client.post(event(id)), id);
    await Promise.all(servers.map((server) => server.start()));
    await eventually('it is ready', async () => (await client.ask({ path: '/health/ready' })).status === 200);
  });
});

it('programs of one queue on the server of another warn that its events wait', async () => {
  await servers[0].command('XADD', 'ingest-a', '*', 'producer', 'p', 'body', event('waits'));
  const env = { INGEST_GATEWAY_ADDR: '127.0.0.1:0', INGEST_CONSUMER_ADDR: '127.0.0.1:0', ...pki.environment };
  for (const name of ['ingest-gateway', 'ingest-consumer'] as const) {
    const place = { INGEST_QUEUE_URI: servers[0].uri, INGEST_WAREHOUSE_URI: sqliteStore().uri };
    const program = new Program(name, { env: { ...env, ...place } });
    assert.match(await program.line(/the server also holds the queue ingest-a/), /INGEST_QUEUE_URI=dispatcher/);
    await program.kill();
  }
});

it('a gateway of two queues starts with one down, and exits with 4 with both down', async () => {
  const [absent, absentToo] = [await freePort(), await freePort()];
  const env = { INGEST_QUEUE_URI: uriOf(absent, absentToo), INGEST_GATEWAY_ADDR: '127.0.0.1:0', ...pki.environment };
  const both = new Program('ingest-gateway', { env });
  const client = (await gatewayOf(uriOf(absent, servers[1].port))).client(shop);
  const [even = '', odd = ''] = [idsOf(0, 'half', 1)[0], idsOf(1, 'half', 1)[0]];
  assertShed(await client.post(event(even)), even);
  assert.deepEqual((await client.post(event(odd))).json, { id: odd, status: 'accepted' });
  assert.equal(await both.ended, 4, both.output);
});
