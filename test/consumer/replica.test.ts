import assert from 'node:assert/strict';
import { it, type TestContext } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { consumerMetrics } from '../../lib/consumer/metrics.ts';
import { Replica } from '../../lib/consumer/replica.ts';
import type { Warehouse } from '../../lib/ingest/warehouse.ts';
import { memberName, StreamReader } from '../../lib/redis/read/stream-reader.ts';
import { createSqliteWarehouse } from '../../lib/sqlite/warehouse.ts';
import { partitionAt, QUIET_LOG } from '../support/partition.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

const KIB = 1 << 10;
const STREAMS = ['ingest-0', 'ingest-1', 'ingest-2', 'ingest-3'];
const EVENTS = 150;
const BODY_BYTES = 64 * KIB;
/** Three batches being landed and the waiting entries have up to 4 MiB each. Reads in progress may add a little. */
const HELD_BYTES_MAX = 18 << 20;

it('a replica of four streams lands three batches at once in total, holds 18 MiB of bodies, and lands every stream', async (t) => {
  const redis = await TestRedis.start(['--appendonly', 'no']);
  for (const stream of STREAMS)
    for (let at = 0; at < EVENTS; at += 1)
      await redis.command('XADD', stream, '*', 'producer', 'shop', 'body', longEvent(`${stream}-${at}`));
  const released = Promise.withResolvers<void>();
  t.after(() => released.resolve());
  let [landing, landingMost] = [0, 0];
  const store = sqliteStore();
  const real = createSqliteWarehouse({ path: store.uri.slice('sqlite:'.length) });
  const land: Warehouse['land'] = async (batch) => {
    landing += 1;
    landingMost = Math.max(landingMost, landing);
    await released.promise;
    return real.land(batch).finally(() => (landing -= 1));
  };
  await start(t, redis, { ...real, land });

  const held = async (): Promise<number> => {
    let entries = 0;
    for (const stream of STREAMS)
      entries += Number(((await redis.command('XPENDING', stream, 'warehouse')) as unknown[])[0]);
    return entries * BODY_BYTES;
  };
  let before = -1;
  await eventually('it reads no more', async () => {
    const bytes = await held();
    assert.ok(bytes <= HELD_BYTES_MAX, `${bytes} bytes`);
    const isStill = landing === 3 && bytes === before;
    before = bytes;
    return isStill;
  });
  released.resolve();
  await eventually('all have landed', async () => (await store.count()) === STREAMS.length * EVENTS);
  assert.equal(landingMost, 3);
});

it('a replica that has ended probes its warehouse no more', async () => {
  const clock = new VirtualClock();
  const telemetry = { metrics: consumerMetrics(SYSTEM.clock), log: QUIET_LOG };
  const warehouse = createSqliteWarehouse({ path: sqliteStore().uri.slice('sqlite:'.length) });
  const limits = { batchMax: 1, replicasMax: 1 };
  await new Replica({ ...SYSTEM, clock, readers: [], warehouse, telemetry, limits }).run();
  assert.equal(clock.pending, 0);
});

it('a replica whose warehouse fails at its start prepares it again, once for all streams, and lands their events', async (t) => {
  const redis = await TestRedis.start(['--appendonly', 'no']);
  for (const stream of STREAMS) await redis.command('XADD', stream, '*', 'producer', 'shop', 'body', longEvent(stream));
  const store = sqliteStore();
  const real = createSqliteWarehouse({ path: store.uri.slice('sqlite:'.length) });
  let prepared = 0;
  const prepare = (): Promise<string | undefined> => {
    prepared += 1;
    return prepared === 1 ? Promise.reject(new Error('no connection')) : real.prepare();
  };
  const others = ['a', 'b'].flatMap((name) => [String(Date.now() + 4_000), name]);
  await redis.command('ZADD', '{ingest-0}:replicas', ...others);
  await redis.command('ZADD', '{ingest-1}:replicas', ...others.slice(2));
  const { metrics, state } = await start(t, redis, { ...real, prepare });
  const full = 'INGEST_CONSUMER_REPLICAS_MAX other consumers read the stream';
  await eventually('only the first stream is full', () => isDeepStrictEqual([...state.unavailable()], [[0, full]]));
  await redis.command('DEL', '{ingest-0}:replicas');
  await eventually('all have landed', async () => (await store.count()) === STREAMS.length);
  assert.ok(prepared <= 1 + STREAMS.length, String(prepared));
  assert.match(await metrics.registry.metrics(), /^ingest_consumer_replicas 1$/m, 'the smallest number');
});

const longEvent = (id: string): string => {
  const head = `{"id":"${id}","type":"t","data":"`;
  return `${head}${'x'.repeat(BODY_BYTES - head.length - 2)}"}`;
};

async function start(t: TestContext, redis: TestRedis, warehouse: Warehouse) {
  const log = QUIET_LOG;
  const readers = STREAMS.map(
    (stream) =>
      new StreamReader({ ...SYSTEM, name: memberName(SYSTEM.random), part: partitionAt(redis.uri, { stream }), log }),
  );
  assert.deepEqual(new Set(await Promise.all(readers.map((reader) => reader.open(20_000)))), new Set([true]));
  const metrics = consumerMetrics(SYSTEM.clock);
  const replica = new Replica({
    ...SYSTEM,
    readers,
    warehouse,
    telemetry: { metrics, log },
    limits: { batchMax: 500, replicasMax: 2 },
  });
  const done = replica.run();
  t.after(async () => {
    replica.stop();
    await done;
    await Promise.all(readers.map((reader) => reader.close()));
    await warehouse.close();
  });
  return { metrics, state: replica.state() };
}
