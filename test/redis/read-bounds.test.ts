// Checks the table of reads in openapi/rules.md.
import assert from 'node:assert/strict';
import { beforeEach, describe, it, type TestContext } from 'node:test';
import type { QueuedCopy } from '../../lib/ingest/queue-admin.ts';
import type { StreamQueue } from '../../lib/redis/accept/stream-queue.ts';
import { GROUP, STREAM } from '../../lib/redis/stream/layout.ts';
import { StreamTrimmer } from '../../lib/redis/stream/stream-trimmer.ts';
import { Recorded, submitAll } from '../contract/queue.ts';
import { connectedTo, openAdmin, openQueue, openReader, QUIET_LOG } from '../support/partition.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';

const HOUR_MS = 3_600_000;
const LONG = 'a'.repeat(100_000);

const redis = await TestRedis.start(['--appendonly', 'no']);
beforeEach(async () => {
  await redis.command('FLUSHALL');
});

/**
 * Commands that read entries, each with the most entries that one call can read in these tests. XINFO STREAM returns
 * the first and the last entry. XCLAIM is not listed, because with JUSTID it returns only names.
 */
const READS = { xrange: 1, 'xinfo|stream': 2, xreadgroup: 64, xautoclaim: 100, xrevrange: 1 };

async function costOf(work: () => Promise<unknown>): Promise<{ readonly entries: number; readonly scripts: number }> {
  await redis.command('CONFIG', 'RESETSTAT');
  await work();
  const stats = String(await redis.command('INFO', 'commandstats'));
  const calls = (name: string): number =>
    Number(new RegExp(`^cmdstat_${name.replace('|', '\\|')}:calls=(\\d+)`, 'm').exec(stats)?.[1] ?? 0);
  const entries = Object.entries(READS).reduce((sum, [name, each]) => sum + each * calls(name), 0);
  return { entries, scripts: calls('evalsha') };
}

/** Opens a queue whose trimmer, which also reads entries, does not run. */
async function openUntrimmed(t: TestContext): Promise<StreamQueue> {
  const after = t.after.bind(t);
  const first = await openQueue(redis.uri, { after });
  await first.close();
  return openQueue(redis.uri, { makes: false, after });
}

async function filled(t: TestContext, count: number): Promise<StreamQueue> {
  const queue = await openUntrimmed(t);
  const events = Array.from({ length: count }, (_, at) => new Recorded(`id-${at}`, 'p', { text: LONG }));
  assert.deepEqual(new Set(await submitAll(queue, events)), new Set(['accepted']));
  return queue;
}

const read = (count: number): Promise<unknown> =>
  redis.command('XREADGROUP', 'GROUP', GROUP, 'dead', 'COUNT', String(count), 'STREAMS', STREAM, '>');

describe('the entries that the server reads', () => {
  it('reads no entry to decide a repeated id', async (t) => {
    const queue = await openUntrimmed(t);
    const first = new Recorded('one', 'p', { text: LONG });
    assert.deepEqual(await submitAll(queue, [first]), ['accepted']);
    const differing = Array.from({ length: 200 }, (_, at) => new Recorded('one', 'p', { at }));
    const conflicting = Array.from({ length: 40 }, () => new Recorded('one', 'q'));
    const { entries } = await costOf(async () => {
      assert.deepEqual(new Set(await submitAll(queue, differing)), new Set(['differing']));
      assert.deepEqual(new Set(await submitAll(queue, conflicting)), new Set(['conflict']));
      assert.deepEqual(await submitAll(queue, [first.again()]), ['duplicate']);
    });
    assert.equal(entries, 0);
  });

  it('reads one entry for a lookup, and none for an unknown id', async (t) => {
    const queue = await filled(t, 3);
    const kinds: string[] = [];
    const found = (id: string, producer = 'p') =>
      costOf(async () => kinds.push((await queue.find(id, producer)).kind)).then(({ entries }) => entries);
    assert.deepEqual([await found('id-1'), await found('id-1', 'q'), await found('unknown')], [1, 1, 0]);
    assert.deepEqual(kinds, ['found', 'unknown', 'unknown']);
  });

  for (const [state, most, prepare] of [
    ['all has landed', 3, async () => redis.command('XGROUP', 'SETID', STREAM, GROUP, '$')],
    ['entries wait to be read', 4, async () => read(5)],
    ['all has landed and is past retention', 7, async () => redis.command('XGROUP', 'SETID', STREAM, GROUP, '$')],
  ] as const)
    it(`reads at most ${most} entries to trim the queue if ${state}`, async (t) => {
      await filled(t, 10);
      await prepare();
      const reports: number[] = [];
      const past = state.endsWith('past retention') ? 0 : 48 * HOUR_MS;
      const server = await connectedTo(redis.uri, t);
      const common = { clock: SYSTEM.clock, server, stream: STREAM, program: 'consumer', log: QUIET_LOG } as const;
      const onReport = ({ events }: { events: number }): unknown => reports.push(events);
      const trimmer = new StreamTrimmer({ ...common, retentionMs: past, onReport });
      await eventually(
        'the clock has gone on',
        async () => Number((await redis.entries())[0]?.entry.split('-')[0]) < Date.now(),
      );
      // A consumer has corrected Redis' counter of read entries before.
      await new StreamTrimmer({ ...common, retentionMs: 48 * HOUR_MS }).trim(0);
      const { entries } = await costOf(() => trimmer.trim(0));
      assert.ok(entries > 0 && entries <= most, `${entries}`);
      assert.deepEqual(reports, [past === 0 ? 0 : 10]);
      assert.equal((await costOf(() => trimmer.trim(60_000))).entries, 0, 'a look that is shared reads nothing');
    });

  it('reads at most 4 MiB and one entry for a claim, however many a dead member held', async (t) => {
    const queue = await filled(t, 100);
    await queue.close();
    await read(100);
    const reader = await openReader(t, redis.uri);
    let taken = 0;
    const { entries } = await costOf(async () => (taken = (await reader.read(100, 0, 0)).length));
    assert.equal(taken, Math.ceil((4 << 20) / LONG.length));
    // The reader's trimmer may run at the same time and read a few entries.
    assert.ok(entries <= taken + 4, `${entries}`);
  });

  it('reads one entry to show an event, nine to erase it, 32 in a call for states, and 4 MiB in a page', async (t) => {
    const queue = await filled(t, 60);
    await queue.close();
    const admin = openAdmin(t, redis.uri, { makes: false });
    await admin.clock();
    let found: QueuedCopy | undefined;
    const located = await costOf(async () => (found = await admin.find('id-3')));
    assert.deepEqual([found?.id, located.entries], ['id-3', 1]);
    if (found === undefined) throw new Error('it was found');
    const copy = found;
    assert.ok((await costOf(() => admin.erase(copy, 'id-3', '{}'))).entries <= 9);
    const names = (await redis.entries()).map(({ entry }) => entry);
    const states = await costOf(() => admin.states(names));
    assert.deepEqual(states, { entries: 60, scripts: 2 });
    const page = await admin.after('0-0');
    assert.deepEqual([page.entries.length, page.full], [Math.ceil((4 << 20) / LONG.length), true]);
  });
});
