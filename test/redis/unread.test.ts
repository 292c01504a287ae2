// The number of events that wait, on servers that have lost Redis' counter of read entries.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RETENTION_MS, type QueueReport } from '../../lib/ingest/queue.ts';
import { GROUP } from '../../lib/redis/stream/layout.ts';
import { StreamTrimmer } from '../../lib/redis/stream/stream-trimmer.ts';
import { connectedTo, openAdmin, QUIET_LOG } from '../support/partition.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';

const STREAM = 'ingest';
const FILL = `for n = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'producer', 'p', 'body', '{}') end`;

const add = (redis: TestRedis, count: number): Promise<unknown> =>
  redis.command('EVAL', FILL, '1', STREAM, String(count));

/** Reads and acknowledges entries, as a consumer does. */
async function land(redis: TestRedis, count: number): Promise<void> {
  const read = ['GROUP', GROUP, 'one', 'COUNT', String(count), 'STREAMS', STREAM, '>'];
  const [[, entries]] = (await redis.command('XREADGROUP', ...read)) as [[string, [string, string[]][]]];
  await redis.command('XACK', STREAM, GROUP, ...entries.map(([name]) => name));
}

async function reportsOf(redis: TestRedis, program: 'gateway' | 'consumer'): Promise<() => Promise<QueueReport>> {
  const reports: QueueReport[] = [];
  const server = await connectedTo(redis.uri);
  const part = { stream: STREAM, program, retentionMs: RETENTION_MS, log: QUIET_LOG, clock: SYSTEM.clock };
  const trimmer = new StreamTrimmer({ ...part, server, onReport: (report) => reports.push(report) });
  return async () => {
    await trimmer.trim(0);
    return reports.at(-1) as QueueReport;
  };
}

const redisLag = async (redis: TestRedis): Promise<unknown> => {
  const [group] = (await redis.command('XINFO', 'GROUPS', STREAM)) as [unknown[]];
  return group[group.indexOf('lag') + 1];
};

/** A server whose counter is right for 3,000 read entries in its append-only file, and not for 4,000 later ones. */
async function restarted(unread: number): Promise<TestRedis> {
  const redis = await TestRedis.start(['--aof-use-rdb-preamble', 'no', '--auto-aof-rewrite-percentage', '0']);
  await redis.command('XGROUP', 'CREATE', STREAM, GROUP, '0', 'MKSTREAM');
  await add(redis, 7_000 + unread);
  await land(redis, 3_000);
  await redis.command('BGREWRITEAOF');
  await eventually('the file is rewritten', async () =>
    /aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0/.test(String(await redis.command('INFO', 'persistence'))),
  );
  await land(redis, 4_000);
  await redis.signal('SIGTERM');
  await redis.start();
  return redis;
}

describe('the number of events that wait', { concurrency: true }, () => {
  it('is counted after a restart if it is small, by any program, and corrected in Redis by a consumer', async () => {
    const redis = await restarted(9);
    const [gateway, consumer] = [await reportsOf(redis, 'gateway'), await reportsOf(redis, 'consumer')];
    assert.deepEqual([(await gateway()).unlanded, (await consumer()).unlanded], [9, 9]);
    assert.equal(await redisLag(redis), 9);
    await land(redis, 4);
    await add(redis, 2_000);
    assert.deepEqual([(await gateway()).unlanded, (await consumer()).unlanded], [2_005, 2_005]);
  });

  it('is unknown after a restart if it is large, until a consumer has counted while others read and add', async (t) => {
    const redis = await restarted(30_000);
    const [gateway, consumer] = [await reportsOf(redis, 'gateway'), await reportsOf(redis, 'consumer')];
    const { unlanded, acknowledged, oldestMs, events } = await gateway();
    assert.deepEqual([unlanded, acknowledged, oldestMs > 0, events], [undefined, undefined, true, 37_000]);
    const admin = openAdmin(t, redis.uri);
    assert.equal((await admin.status()).partition.unread, undefined);
    const counting = consumer();
    for (let n = 0; n < 5; n += 1) {
      await land(redis, 1_000);
      await add(redis, 300);
    }
    await counting;
    await eventually('it is counted', async () => (await consumer()).unlanded !== undefined);
    assert.deepEqual([(await gateway()).unlanded, await redisLag(redis)], [26_500, 26_500]);
    assert.equal((await admin.status()).partition.unread, 26_500);
    await land(redis, 500);
    assert.deepEqual([(await gateway()).unlanded, (await gateway()).acknowledged], [26_000, 12_500]);
  });

  it('is right on a replica that was promoted, and again on the old master after it was promoted again', async () => {
    const first = await TestRedis.start(['--appendonly', 'no', '--repl-diskless-sync-delay', '0']);
    await first.command('XGROUP', 'CREATE', STREAM, GROUP, '0', 'MKSTREAM');
    await add(first, 5_000);
    await land(first, 1_000);
    const second = await TestRedis.start(['--appendonly', 'no', '--replicaof', '127.0.0.1', String(first.port)]);
    const synchronized = (replica: TestRedis): Promise<unknown> =>
      eventually('the replica has all', async () =>
        /master_link_status:up/.test(String(await replica.command('INFO', 'replication'))),
      );
    await synchronized(second);
    await land(first, 1_500);
    await first.command('WAIT', '1', '10000');
    await second.command('REPLICAOF', 'NO', 'ONE');
    const onSecond = await reportsOf(second, 'consumer');
    await eventually('it is counted', async () => (await onSecond()).unlanded === 2_500);
    await land(second, 500);
    assert.equal((await onSecond()).unlanded, 2_000);

    await first.command('REPLICAOF', '127.0.0.1', String(second.port));
    await synchronized(first);
    await land(second, 900);
    await second.command('WAIT', '1', '10000');
    await first.command('REPLICAOF', 'NO', 'ONE');
    const onFirst = await reportsOf(first, 'consumer');
    await eventually('it is counted', async () => (await onFirst()).unlanded === 1_100);
    assert.equal(await redisLag(first), 1_100);
  });

  it('is right while an erased entry waits among few, and unknown among many until it was read', async () => {
    const redis = await TestRedis.start(['--appendonly', 'no']);
    await redis.command('XGROUP', 'CREATE', STREAM, GROUP, '0', 'MKSTREAM');
    await add(redis, 6_000);
    await land(redis, 10);
    const consumer = await reportsOf(redis, 'consumer');
    assert.equal((await consumer()).unlanded, 5_990);
    const entries = await redis.entries();
    await redis.command('XDEL', STREAM, entries[3_000]?.entry ?? '');
    assert.equal((await consumer()).unlanded, undefined);
    await land(redis, 5_489);
    assert.deepEqual([(await consumer()).unlanded, await redisLag(redis)], [500, 500]);
    await redis.command('XDEL', STREAM, entries[5_900]?.entry ?? '');
    assert.equal((await consumer()).unlanded, 499);
  });
});
