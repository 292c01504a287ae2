// Bodies that stand compressed on the queue, on the whole way of an event: look-up, landing, quarantine, and the
// operator's changes.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, describe, it } from 'node:test';
import { zstdCompressSync } from 'node:zlib';
import { webhookEvents } from '../../bench/load/webhooks.ts';
import { Admin } from '../admin/admin.ts';
import { PATIENT } from '../support/gateway.ts';
import { Pipeline } from '../support/pipeline.ts';
import { plainClient, TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { sqliteStore, type WarehouseStore } from '../support/warehouse-store.ts';

const WEBHOOKS = webhookEvents().filter((_, at) => at % 20 === 0);
const REFUSED = 'refused.type';
const SECRET = 'a secret that nobody may read any more';

describe('a queue whose bodies are compressed', () => {
  let redis: TestRedis;
  let store: WarehouseStore;
  let pipeline: Pipeline;
  const encodings = async (): Promise<readonly (string | undefined)[]> =>
    (await redis.entries()).map(({ fields }) => fields['encoding']);

  before(async () => {
    redis = await TestRedis.start();
    store = sqliteStore();
    pipeline = await Pipeline.start({
      queueUri: redis.uri,
      warehouseUri: store.uri,
      gatewayWarehouseUri: '',
      replicas: 0,
      env: { ...PATIENT, INGEST_QUEUE_COMPRESSION: 'zstd' },
    });
    atEnd(() => pipeline.stop());
  });

  it('answers a look-up with the event as it was sent, and calls the same bytes no other body', async () => {
    for (const { body } of WEBHOOKS) assert.equal((await pipeline.post(body)).status, 202);
    assert.ok((await encodings()).includes('zstd'));
    for (const { id, body } of WEBHOOKS.slice(0, 5)) {
      const { status, text } = await pipeline.find(id);
      assert.equal(status, 200);
      assert.ok(text.includes(body), id);
      const again = await pipeline.post(body);
      assert.deepEqual([again.body['duplicate'], again.body['differs']], [true, undefined]);
    }
  });

  it('lands every event byte for byte, and quarantines what is no compressed event', async () => {
    await redis.command('XADD', 'ingest', '*', 'producer', 'p', 'body', 'no frame', 'encoding', 'zstd');
    await pipeline.startConsumer();
    await eventually('all have landed', async () => (await store.count()) === WEBHOOKS.length);
    const landed = new Map((await store.events()).map(({ id, body }) => [id, body]));
    for (const { id, body } of WEBHOOKS) assert.equal(landed.get(id), body);
    const rows = await eventually('and the other one is in the quarantine', async () => {
      const found = await store.quarantine();
      return found.length > 0 && found;
    });
    assert.deepEqual(
      rows.map(({ reason, body }) => [reason.split(':')[0], body.toString()]),
      [['invalid_event', 'no frame']],
    );
  });

  it('quarantines what inflates beyond the longest body, in memory that does not grow with it', async (t) => {
    const [replica] = pipeline.replicas;
    if (replica === undefined) throw new Error('the consumer was started');
    // 12 entries of 11 kB at most, which would be 1.4 GB.
    const bomb = zstdCompressSync(Buffer.alloc(120 << 20, 'a'));
    const before = await store.quarantine();
    const client = plainClient(redis.port, undefined);
    await client.connect();
    t.after(() => client.disconnect());
    for (let at = 0; at < 12; at += 1)
      await client.call('XADD', 'ingest', '*', 'producer', 'p', 'body', bomb, 'encoding', 'zstd');
    const body = JSON.stringify({ id: 'behind', type: 't' });
    assert.equal((await pipeline.post(body)).status, 202);
    await eventually('what is behind them has landed', async () =>
      (await store.events()).some(({ id }) => id === 'behind'),
    );
    const known = new Set(before.map(({ entry }) => entry));
    const rows = await eventually('and they are in the quarantine', async () => {
      const found = (await store.quarantine()).filter(({ entry }) => !known.has(entry));
      return found.length >= 12 && found;
    });
    assert.equal(rows.length, 12);
    for (const row of rows) {
      assert.equal(row.reason, 'invalid_event: the compressed body is longer than gateways accept');
      assert.ok(bomb.equals(row.body), 'the bytes that were on the queue');
    }
    const peakMb =
      Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${replica.program.child.pid}/status`, 'utf8'))?.[1]) /
      1024;
    t.diagnostic(`${bomb.length} bytes each, peak of the consumer ${Math.round(peakMb)} MB`);
    assert.ok(peakMb > 30 && peakMb < 400, `${peakMb} MB`);
  });

  it('has its events replayed and erased', async () => {
    const admin = new Admin(redis, store);
    await store.refuse(REFUSED, true);
    const body = JSON.stringify({ id: 'refused', type: REFUSED, text: SECRET.repeat(50) });
    assert.equal((await pipeline.post(body)).status, 202);
    await eventually('it is in the quarantine', async () =>
      (await store.quarantine()).some(({ id }) => id === 'refused'),
    );
    const row = (await store.quarantine()).find(({ id }) => id === 'refused');
    assert.equal(row?.body.toString(), body);
    await store.refuse(REFUSED, false);
    const { landed } = await admin.json<{ landed: number }>(0, 'quarantine', 'replay', row.entry, '--yes');
    assert.equal(landed, 1);
    const { queue } = await admin.json<{ queue: number }>(0, 'erase', 'refused', '--yes');
    assert.equal(queue, 2, 'the compressed entry, and the one of the replay');
    for (const { fields } of (await redis.entries()).slice(-2))
      assert.deepEqual([fields['encoding'], fields['body']?.includes('"erased":true')], [undefined, true]);
    assert.ok(!JSON.stringify(await redis.entries()).includes(SECRET));
    assert.match((await store.events()).find(({ id }) => id === 'refused')?.body ?? '', /"erased":true/);
  });
});
