import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RETENTION_MS, type QueueReport } from '../../lib/ingest/queue.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { GROUP } from '../../lib/redis/stream/layout.ts';
import type { Server } from '../../lib/redis/wire/values.ts';
import { StreamTrimmer } from '../../lib/redis/stream/stream-trimmer.ts';
import { connectedTo, logged, QUIET_LOG } from '../support/partition.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';

const HOUR_MS = 3_600_000;

const redis = await TestRedis.start();

async function trimmerOf(
  stream: string,
  onReport?: (report: QueueReport) => void,
  { log = QUIET_LOG, clock = SYSTEM.clock, server = connectedTo(redis.uri) } = {},
): Promise<StreamTrimmer> {
  const part = { stream, program: 'consumer', retentionMs: RETENTION_MS } as const;
  return new StreamTrimmer({ ...part, clock, server: await server, log, onReport });
}

const landed = (stream: string): Promise<unknown> => redis.command('XGROUP', 'CREATE', stream, GROUP, '$', 'MKSTREAM');

const namesIn = async (stream: string): Promise<string[]> => (await redis.entries(stream)).map(({ entry }) => entry);

const hoursAgo = (hours: number): string => String(Math.round(Date.now() - hours * HOUR_MS));

describe('trimming', () => {
  it('keeps a slice of the id index while one of its events has not landed, however old', async () => {
    const stream = 'unlanded-slices';
    const starts = [33, 41].map(hoursAgo);
    const waiting = String(await redis.command('XADD', stream, hoursAgo(30), 'producer', 'p', 'body', '{}'));
    await redis.command('XGROUP', 'CREATE', stream, GROUP, '0');
    await redis.command('SET', `{${stream}}:ids`, starts.join(' '));
    const trimmer = await trimmerOf(stream);
    const kept = async (): Promise<unknown> => redis.command('GET', `{${stream}}:ids`);
    await trimmer.trim(0);
    assert.equal(await kept(), starts[0], 'it was not read');
    await redis.command('XREADGROUP', 'GROUP', GROUP, 'one', 'STREAMS', stream, '>');
    await trimmer.trim(0);
    assert.equal(await kept(), starts[0], 'it was not acknowledged');
    await redis.command('XACK', stream, GROUP, waiting);
    await trimmer.trim(0);
    assert.equal(await kept(), null, 'the stream has nothing within retention');
    await redis.command('XADD', stream, hoursAgo(23.9), 'body', '{}');
    await redis.command('XGROUP', 'SETID', stream, GROUP, '$');
    await redis.command('SET', `{${stream}}:ids`, starts[0] ?? '');
    await trimmer.trim(0);
    assert.equal(await kept(), starts[0], 'the newest one ends with an entry within retention');
  });

  it('removes acknowledged entries past retention, and keeps all others', async () => {
    const stream = 'bounds';
    const names: string[] = [];
    for (const hours of [25, 24.01, 23.99, 1])
      names.push(String(await redis.command('XADD', stream, hoursAgo(hours), 'producer', 'p', 'body', '{}')));
    const reports: QueueReport[] = [];
    const trimmer = await trimmerOf(stream, (report) => reports.push(report));
    await trimmer.trim(0);
    assert.deepEqual(await namesIn(stream), names, 'there is no group');
    assert.deepEqual([reports[0]?.unlanded, Math.round((reports[0]?.oldestMs ?? 0) / HOUR_MS)], [4, 25]);
    await redis.command('XGROUP', 'CREATE', stream, GROUP, '0');
    await trimmer.trim(0);
    assert.deepEqual(await namesIn(stream), names, 'nothing was read');
    await redis.command('XREADGROUP', 'GROUP', GROUP, 'one', 'STREAMS', stream, '>');
    await trimmer.trim(0);
    assert.deepEqual(await namesIn(stream), names, 'nothing was acknowledged');
    await redis.command('XACK', stream, GROUP, names[1] ?? '', names[3] ?? '');
    await trimmer.trim(0);
    assert.deepEqual(await namesIn(stream), names, 'the first one was not acknowledged');
    await redis.command('XACK', stream, GROUP, names[0] ?? '');
    await trimmer.trim(0);
    assert.deepEqual(await namesIn(stream), names.slice(2));
  });

  it('keeps an entry that is exactly 24 hours old, and removes one or a slice that is a millisecond older', async () => {
    const stream = 'exact';
    const nowMs = Date.now() - 1_000;
    const boundMs = nowMs - RETENTION_MS;
    const names = [`${boundMs - 1}-7`, `${boundMs}-0`, `${boundMs}-1`];
    for (const name of names) await redis.command('XADD', stream, name, 'body', '{}');
    await landed(stream);
    // A slice ends where the next one begins, so only the oldest one is past retention.
    const starts = [boundMs, boundMs - 1, boundMs - 100].map(String);
    await redis.command('SET', `{${stream}}:ids`, starts.join(' '));
    for (const start of starts) await redis.command('HSET', `{${stream}}:ids:${start}`, 'id', 'x');
    const clock = Object.assign(Object.create(SYSTEM.clock) as Clock, { epochMs: () => nowMs });
    await (await trimmerOf(stream, undefined, { clock })).trim(0);
    assert.deepEqual(await namesIn(stream), names.slice(1));
    assert.equal(await redis.command('GET', `{${stream}}:ids`), starts.slice(0, 2).join(' '));
    assert.equal(await redis.command('EXISTS', `{${stream}}:ids:${boundMs - 100}`), 0);
  });

  it("uses the earlier of two clocks: its own or the server's", async (t) => {
    for (const [stream, ageHours, aheadHours] of [
      ['own-clock-ahead', 20, 30],
      ['own-clock-behind', 30, -20],
    ] as const) {
      await redis.command('XADD', stream, hoursAgo(ageHours), 'body', 'x');
      await landed(stream);
      const reports: QueueReport[] = [];
      t.mock.timers.enable({ apis: ['Date'], now: Date.now() + aheadHours * HOUR_MS });
      await (await trimmerOf(stream, (report) => reports.push(report))).trim(0);
      t.mock.timers.reset();
      assert.equal(await redis.length(stream), 1, stream);
      assert.equal(Math.round((reports[0]?.clockSkewMs ?? 0) / HOUR_MS), Math.abs(aheadHours), 'it is reported');
    }
  });

  it('removes more entries than one call may, and goes on after another process was stopped', async () => {
    const stream = 'halved';
    const fill = `for n = 1, 5500 do redis.call('XADD', KEYS[1], ARGV[1] .. '-' .. n, 'body', 'x') end`;
    await redis.command('EVAL', fill, '1', stream, hoursAgo(25));
    await landed(stream);
    const young = await redis.command('XADD', stream, hoursAgo(1), 'body', 'x');
    const connection = await connectedTo(redis.uri);
    let calls = 0;
    const send: Server['send'] = async (command) => {
      // The first call may send the script's text after its name.
      if (calls === 1) throw new Error('stopped');
      const reply = await connection.send(command);
      calls += 1;
      return reply;
    };
    const part = { stream, program: 'consumer', retentionMs: RETENTION_MS, clock: SYSTEM.clock } as const;
    await new StreamTrimmer({ ...part, server: { send }, log: QUIET_LOG }).trim(0);
    assert.ok((await redis.length(stream)) > 1);
    await (await trimmerOf(stream)).trim(60_000);
    assert.deepEqual(await namesIn(stream), [young]);
  });

  it("takes entries that were deleted by hand off the group's list, and logs them once", async (t) => {
    const stream = 'deleted';
    const { log, lines } = logged(t, 'error');
    await redis.command('XGROUP', 'CREATE', stream, GROUP, '0', 'MKSTREAM');
    const names: string[] = [];
    for (const hours of [50, 49, 48, 47, 46])
      names.push(String(await redis.command('XADD', stream, hoursAgo(hours), 'body', 'x')));
    await redis.command('XREADGROUP', 'GROUP', GROUP, 'dead', 'STREAMS', stream, '>');
    await redis.command('XACK', stream, GROUP, names[1] ?? '', names[3] ?? '');
    await redis.command('XDEL', stream, names[0] ?? '', names[2] ?? '');
    const reports: QueueReport[] = [];
    const trimmers = await Promise.all(
      [1, 2, 3].map(() => trimmerOf(stream, (report) => reports.push(report), { log })),
    );
    for (let at = 0; at < 2; at += 1) await Promise.all(trimmers.map((trimmer) => trimmer.trim(0)));
    const msg = '2 entries were deleted by hand before they were acknowledged';
    assert.deepEqual(lines, [{ entries: [names[0], names[2]], msg }]);
    assert.deepEqual(await namesIn(stream), names.slice(4));
    assert.equal(reports.at(-1)?.unlanded, 1);
    await redis.command('XTRIM', stream, 'MAXLEN', '0');
    await trimmers[0]?.trim(0);
    assert.equal(lines.length, 2);
    assert.equal(reports.at(-1)?.unlanded, 0);
  });

  it('keeps the notes of replays until the last replay has landed, and for 24 hours at least', async () => {
    for (const [stream, hours, from, there] of [
      ['replay-landed', 25, '$', 0],
      ['replay-landed-lately', 23, '$', 1],
      ['replay-waiting', 25, '0', 1],
    ] as const) {
      const notes = `{${stream}}:replays`;
      const entry = String(await redis.command('XADD', stream, hoursAgo(hours), 'body', 'x'));
      await redis.command('XGROUP', 'CREATE', stream, GROUP, from);
      await redis.command('HSET', notes, 'q/s/1-1', entry, '\n', entry);
      await (await trimmerOf(stream)).trim(0);
      assert.equal(await redis.command('EXISTS', notes), there, stream);
    }
  });

  it('keeps the note of an erasure for 35 days, and while an older event has not landed', async () => {
    for (const [stream, landedAll, left] of [
      ['erased-landed', true, ['young']],
      ['erased-waiting', false, ['after', 'young']],
    ] as const) {
      const key = `{${stream}}:erased`;
      await redis.command('ZADD', key, hoursAgo(860), 'before', hoursAgo(841), 'after', hoursAgo(839), 'young');
      await redis.command('XADD', stream, hoursAgo(850), 'body', 'x');
      await redis.command('XGROUP', 'CREATE', stream, GROUP, landedAll ? '$' : '0');
      await (await trimmerOf(stream)).trim(0);
      assert.deepEqual(await redis.command('ZRANGE', key, '0', '-1'), left);
    }
  });

  it("reports the group's lag and the server's memory", async () => {
    const stream = 'seen';
    await redis.command('XGROUP', 'CREATE', stream, GROUP, '0', 'MKSTREAM');
    const reports: QueueReport[] = [];
    const trimmer = await trimmerOf(stream, (report) => reports.push(report));
    await trimmer.trim(0);
    assert.equal(reports[0]?.unlanded, 0);
    assert.equal(reports[0].oldestMs, 0);
    assert.equal(reports[0].memoryLimitBytes, 0);
    assert.ok((reports[0].memoryBytes ?? 0) > 100_000);
    for (const hours of [3, 2, 1]) await redis.command('XADD', stream, hoursAgo(hours), 'body', 'x');
    await redis.command('XREADGROUP', 'GROUP', GROUP, 'one', 'COUNT', '2', 'STREAMS', stream, '>');
    const [first] = await redis.entries(stream);
    await redis.command('XACK', stream, GROUP, first?.entry ?? '');
    await trimmer.trim(0);
    assert.equal(reports[1]?.unlanded, 2);
    assert.equal(reports[1].events, 3);
    assert.equal(Math.round(reports[1].oldestMs / HOUR_MS), 2);
    assert.deepEqual([reports[1].acknowledged, reports[1].consumers, reports[1].replicas], [1, 0, 0]);
  });

  it('reports consumers with a heartbeat, and replicas that acknowledge, unless the server refuses to tell', async () => {
    const stream = 'attended';
    const reports: QueueReport[] = [];
    const trimmer = await trimmerOf(stream, (report) => reports.push(report));
    await redis.command('XADD', stream, hoursAgo(1), 'body', 'x');
    await redis.command('ZADD', `{${stream}}:replicas`, String(Date.now()), 'one', String(Date.now()), 'two');
    const replica = await TestRedis.start(['--replicaof', '127.0.0.1', String(redis.port)]);
    await eventually('the replica is reported', async () => {
      await trimmer.trim(0);
      return reports.at(-1)?.replicas === 1;
    });
    assert.equal(reports.at(-1)?.consumers, 2);
    await replica.signal('SIGKILL');
    await eventually('the replica is missing', async () => {
      await trimmer.trim(0);
      return reports.at(-1)?.replicas === 0;
    });
    await redis.command('ACL', 'SETUSER', 'blind', 'on', '>secret', '~*', '+@all', '-info');
    const server = connectedTo(redis.uri.replace('//', '//blind:secret@'));
    await (await trimmerOf(stream, (report) => reports.push(report), { server })).trim(0);
    const { consumers, replicas, memoryBytes, memoryLimitBytes } = reports.at(-1) ?? {};
    assert.deepEqual([consumers, replicas, memoryBytes, memoryLimitBytes], [2, undefined, undefined, undefined]);
  });

  it('logs once which rights its user lacks', async (t) => {
    const { log, lines } = logged(t, 'warn');
    const user = (right: string): Promise<unknown> =>
      redis.command('ACL', 'SETUSER', 'trims', 'on', '>secret', '~*', '+@all', right);
    await user('+xtrim');
    const server = connectedTo(redis.uri.replace('//', '//trims:secret@'));
    const trimmer = await trimmerOf('forbidden', undefined, { log, server });
    await redis.command('XADD', 'forbidden', '1-1', 'body', 'x');
    for (const right of ['-xtrim', '-xtrim', '+xtrim', '-xtrim']) {
      await user(right);
      await trimmer.trim(0);
    }
    const text = 'the Redis user lacks rights that this program needs: xtrim on forbidden';
    assert.deepEqual(
      lines.map(({ reason }) => String(reason).split(' (')[0]),
      [text, text],
    );
  });

  it('returns the report of another process without reading anything', async () => {
    const stream = 'shared';
    await redis.command('XADD', stream, hoursAgo(1), 'body', 'x');
    const reports: QueueReport[] = [];
    const trimmers = await Promise.all([1, 2].map(() => trimmerOf(stream, (report) => reports.push(report))));
    await trimmers[0]?.trim(60_000);
    await redis.command('XADD', stream, hoursAgo(0.5), 'body', 'x');
    await trimmers[1]?.trim(60_000);
    assert.equal(reports[1]?.oldestMs, reports[0]?.oldestMs, 'the age when it was measured');
    await trimmers[1]?.trim(0);
    assert.deepEqual(
      reports.map(({ unlanded }) => unlanded),
      [1, 1, 2],
    );
  });
});
