// What is dropped by hand, and what a clock that is wrong drops: the rest of queue-trimming.test.ts.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { event, PATIENT, TestGateway } from '../support/gateway.ts';
import { metricOf, Pipeline } from '../support/pipeline.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { append, land, names, pki } from './queue-trimming.ts';

describe('the queue', () => {
  it('counts and tells what is dropped by hand before it has landed, and not what has landed', async () => {
    const redis = await TestRedis.start();
    await append(redis, 2, 100);
    await land(redis);
    const gateway = await TestGateway.start(redis, pki);
    const lost = (): Promise<number> => gateway.metric('ingest_queue_lost_total');
    await eventually('the queue was looked at', async () => (await redis.command('EXISTS', '{ingest}:looked')) === 1);
    await append(redis, 1, 60);
    const [first = '', second = '', third = ''] = (await names(redis)).slice(100);
    // 100 that have landed, and two that have not.
    await redis.command('XTRIM', 'ingest', 'MINID', third);
    await eventually('two are counted', async () => (await lost()) === 2);
    assert.ok(!(await names(redis)).some((name) => name === first || name === second));
    await redis.command('XDEL', 'ingest', third);
    await eventually('the third is counted', async () => (await lost()) === 3);
    await land(redis);
    const unread = (count: number): Promise<unknown> =>
      eventually(
        `${count} are unread`,
        async () => (await redis.command('HGET', '{ingest}:looked', 'unread')) === String(count),
      );
    await unread(0);
    await redis.command('XTRIM', 'ingest', 'MAXLEN', '0');
    await append(redis, 0.1, 10);
    await unread(10);
    assert.equal(await lost(), 3, 'what had landed is not lost');
    await redis.command('DEL', 'ingest');
    await eventually('those of the deleted stream are counted', async () => (await lost()) > 3);
    assert.equal(await lost(), 13);
  });

  it('loses nothing while the clock of Redis is a day ahead, or ten, and comes back', async () => {
    const redis = await TestRedis.startWithClock();
    const pipeline = await Pipeline.start({
      queueUri: redis.uri,
      warehouseUri: `sqlite:${temporaryFolder()}/warehouse.db`,
      replicas: 0,
      env: PATIENT,
    });
    const ids = Array.from({ length: 60 }, (_, at) => `clock-${at}`);
    const post = async (some: readonly string[]): Promise<void> => {
      for (const id of some) assert.equal((await pipeline.post(event(id))).status, 202);
    };
    await post(ids.slice(0, 20));
    // The gateway has made the group, and no consumer reads.
    for (const [at, hours] of [25, 240].entries()) {
      redis.setClock(hours);
      await post(ids.slice(20 + 20 * at, 40 + 20 * at));
      const looked = await redis.command('HGET', '{ingest}:looked', 'added');
      await eventually(
        'the queue was looked at',
        async () => (await redis.command('HGET', '{ingest}:looked', 'added')) !== looked,
      );
    }
    redis.setClock(0);
    assert.equal(await redis.length(), 60);
    const replica = await pipeline.startConsumer();
    await eventually('all have landed', async () => (await metricOf(replica, 'ingest_landed_total')) === 60);
    await pipeline.stop();
  });
});
