// What one look of the trimmer drops of stream and id index, on both sides of each bound.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { RETENTION_MS } from '../../lib/ingest/queue.ts';
import { createLog } from '../../lib/process/log.ts';
import { valueConnection } from '../../lib/redis/node-redis.ts';
import { GROUP } from '../../lib/redis/stream-names.ts';
import { StreamTrimmer } from '../../lib/redis/stream-trimmer.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';

const LOG = createLog('test', 'error');
LOG.level = 'silent';
const HOUR_MS = 3_600_000;

let redis: TestRedis;
before(async () => {
  redis = await TestRedis.start();
});

async function trimmerOf(stream: string, losses: number[] = []): Promise<StreamTrimmer> {
  const connection = valueConnection({ uri: redis.uri, name: 'test', log: LOG });
  atEnd(() => connection.close());
  connection.open();
  await eventually('it is connected', () => connection.ready);
  return new StreamTrimmer({
    server: connection.values,
    stream,
    retentionMs: RETENTION_MS,
    unlandedMs: 48 * HOUR_MS,
    log: LOG,
    onLost: (events) => losses.push(events),
  });
}

const hoursAgo = (hours: number): string => String(Math.round(Date.now() - hours * HOUR_MS));

describe('a look of the trimmer', () => {
  it('drops a slice of the id index with its youngest id, and no sooner', async () => {
    const stream = 'slices';
    const starts = [8, 23.9, 24.1, 33, 41].map(hoursAgo);
    await redis.command('XADD', stream, hoursAgo(1), 'producer', 'p', 'body', '{}');
    await redis.command('SET', `{${stream}}:ids`, starts.join(' '));
    for (const start of starts) await redis.command('HSET', `{${stream}}:ids:${start}`, 'id', 'x');
    await (await trimmerOf(stream)).look();
    // The slice of 33 hours ends with the one that began 24.1 hours ago; that one holds ids of 23.9.
    assert.equal(await redis.command('GET', `{${stream}}:ids`), starts.slice(0, 3).join(' '));
    const kept = (await redis.command('KEYS', `{${stream}}:ids:*`)) as string[];
    assert.deepEqual(
      kept.sort(),
      starts
        .slice(0, 3)
        .map((start) => `{${stream}}:ids:${start}`)
        .sort(),
    );
  });

  it('keeps the newest slice while the stream holds something within retention, and drops it after', async () => {
    for (const [stream, hours, there] of [
      ['newest-young', 23.9, 1],
      ['newest-old', 24.1, 0],
    ] as const) {
      await redis.command('XADD', stream, hoursAgo(hours), 'producer', 'p', 'body', '{}');
      await redis.command('SET', `{${stream}}:ids`, hoursAgo(30));
      await (await trimmerOf(stream)).look();
      assert.equal(await redis.command('EXISTS', `{${stream}}:ids`), there, stream);
    }
  });

  it('drops an entry past retention that is acknowledged, and keeps one within it or not acknowledged', async () => {
    const stream = 'bounds';
    await redis.command('XGROUP', 'CREATE', stream, GROUP, '0', 'MKSTREAM');
    const names: string[] = [];
    for (const hours of [25, 24.01, 23.99, 1])
      names.push(String(await redis.command('XADD', stream, hoursAgo(hours), 'producer', 'p', 'body', '{}')));
    const trimmer = await trimmerOf(stream);
    const left = async (): Promise<string[]> => (await redis.entries(stream)).map(({ entry }) => entry);
    await trimmer.look();
    assert.deepEqual(await left(), names, 'nothing was read');
    await redis.command('XREADGROUP', 'GROUP', GROUP, 'one', 'STREAMS', stream, '>');
    await trimmer.look();
    assert.deepEqual(await left(), names, 'nothing was acknowledged');
    await redis.command('XACK', stream, GROUP, names[1] ?? '', names[3] ?? '');
    await trimmer.look();
    assert.deepEqual(await left(), names, 'the first one was not acknowledged');
    await redis.command('XACK', stream, GROUP, names[0] ?? '');
    await trimmer.look();
    assert.deepEqual(await left(), names.slice(2));
  });

  it('drops more than one call may drop, and nothing beyond', async () => {
    const stream = 'many';
    const fill = `for n = 1, 5500 do redis.call('XADD', KEYS[1], ARGV[1] .. '-' .. n, 'body', 'x') end`;
    await redis.command('EVAL', fill, '1', stream, hoursAgo(25));
    const young = await redis.command('XADD', stream, hoursAgo(1), 'body', 'x');
    await (await trimmerOf(stream)).look();
    assert.deepEqual(
      (await redis.entries(stream)).map(({ entry }) => entry),
      [young],
    );
  });

  it('counts a loss once, however many processes look', async () => {
    const stream = 'counted';
    await redis.command('XGROUP', 'CREATE', stream, GROUP, '0', 'MKSTREAM');
    const losses: number[] = [];
    const trimmers = await Promise.all([
      trimmerOf(stream, losses),
      trimmerOf(stream, losses),
      trimmerOf(stream, losses),
    ]);
    const look = async (): Promise<void> => void (await Promise.all(trimmers.map((trimmer) => trimmer.look())));
    await look();
    for (let at = 0; at < 10; at += 1) await redis.command('XADD', stream, '*', 'body', 'x');
    await redis.command('XTRIM', stream, 'MAXLEN', '6');
    await look();
    assert.deepEqual(losses, [4]);
    for (const hours of [49, 47]) await redis.command('XADD', `${stream}-cap`, hoursAgo(hours), 'body', 'x');
    await redis.command('XGROUP', 'CREATE', `${stream}-cap`, GROUP, '0');
    await (await trimmerOf(`${stream}-cap`, losses)).look();
    assert.deepEqual(losses, [4, 1]);
    assert.equal(await redis.length(`${stream}-cap`), 1);
  });

  it('believes the clock that is behind: its own, or that of the server', async (t) => {
    for (const [stream, ageHours, aheadHours] of [
      ['own-clock-ahead', 20, 30],
      ['own-clock-behind', 30, -20],
    ] as const) {
      await redis.command('XADD', stream, hoursAgo(ageHours), 'body', 'x');
      t.mock.timers.enable({ apis: ['Date'], now: Date.now() + aheadHours * HOUR_MS });
      await (await trimmerOf(stream)).look();
      t.mock.timers.reset();
      assert.equal(await redis.length(stream), 1, stream);
    }
  });
});
