// Redis names entries by its clock, but never earlier than the last one. After its clock was ahead for one event, all
// later entries are named ahead; while it is behind, they keep the last time.
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import type { Delivery, QueueReport } from '../../lib/ingest/queue.ts';
import { type Clock } from '../../lib/process/clock.ts';
import { StreamAdmin } from '../../lib/redis/admin/stream-admin.ts';
import { StreamReader } from '../../lib/redis/read/stream-reader.ts';
import { StreamTrimmer } from '../../lib/redis/stream/stream-trimmer.ts';
import { Recorded, submitAll } from '../contract/queue.ts';
import { connectedTo, openQueue, partitionAt, QUIET_LOG as log } from '../support/partition.ts';
import { TestRedis } from '../support/redis.ts';
import { SYSTEM } from '../support/system.ts';

const HOUR_MS = 3_600_000;
const DAYS = 24;

/** The clock of all programs, `hours` ahead of this machine's. */
function shifted(): { readonly clock: Clock; hours: number } {
  const shift = { hours: 0, clock: { ...SYSTEM.clock, epochMs: () => Date.now() + shift.hours * HOUR_MS } };
  return shift;
}

async function open(t: TestContext) {
  const redis = await TestRedis.startWithClock();
  const time = shifted();
  const { clock } = time;
  const system = { ...SYSTEM, clock };
  const part = partitionAt(redis.uri);
  const queue = await openQueue(redis.uri, { clock, after: t.after.bind(t) });
  const connection = await connectedTo(redis.uri, t);
  const reader = new StreamReader({ ...system, name: 'reader', part, log });
  const admin = new StreamAdmin({ ...system, part, log });
  t.after(() => Promise.all([reader.close(), admin.close()]));
  assert.equal(await reader.open(10_000), true);
  await reader.join();
  const report = async (): Promise<QueueReport> => {
    let last: QueueReport | undefined;
    const onReport = (one: QueueReport) => (last = one);
    await new StreamTrimmer({ clock, log, program: 'consumer', ...part, server: connection, onReport }).trim(0);
    return last ?? assert.fail('no report');
  };
  const accept = (...ids: string[]) =>
    submitAll(
      queue,
      ids.map((id) => new Recorded(id)),
    );
  const read = (): Promise<readonly Delivery[]> => reader.read(100, 3_600_000, 0);
  return { redis, time, queue, reader, admin, report, accept, read };
}

const isClose = (ms: number, otherMs: number): boolean => Math.abs(ms - otherMs) < 60_000;

for (const [what, jumpHours] of [
  ['was 40 days ahead for one event', 40 * DAYS],
  ['was ten years ahead for one event', 3_650 * DAYS],
] as const)
  describe(`a server whose clock ${what}`, { concurrency: true }, () => {
    it('is reported as clock skew, with the right ages, and its entries have honest times', async (t) => {
      const { redis, report, accept, read, admin, reader, queue } = await open(t);
      redis.setClock(jumpHours);
      await accept('ahead');
      redis.setClock(0);
      const skewed = await report();
      assert.ok(isClose(skewed.clockSkewMs ?? 0, jumpHours * HOUR_MS), String(skewed.clockSkewMs));
      await accept('after', 'after-too');
      const found = await queue.find('after', 'p');
      assert.ok(found.kind === 'found' && isClose(found.event.acceptedAtMs, Date.now()));
      redis.setClock(2);
      const late = await report();
      assert.deepEqual([late.unlanded, isClose(late.oldestMs, 2 * HOUR_MS)], [3, true]);
      assert.ok(isClose((await admin.status()).partition.oldestUnlandedMs, 2 * HOUR_MS));
      redis.setClock(0);
      const events = await read();
      assert.equal(events.length, 3);
      for (const { acceptedAtMs } of events) assert.ok(isClose(acceptedAtMs, Date.now()), String(acceptedAtMs));
      await admin.noteErasure('ahead');
      await admin.noteErasure('after');
      const erased = await reader.erased(events.map((event, at) => ({ ...event, id: ['ahead', 'after', 'x'][at] })));
      assert.deepEqual([...erased].sort(), ['after', 'ahead']);
    });

    it('is trimmed after retention, entries and ids alike', async (t) => {
      const { redis, time, report, accept } = await open(t);
      await accept('before');
      redis.setClock(jumpHours);
      await accept('ahead');
      redis.setClock(0);
      await report();
      await accept('after');
      const passed = async (hours: number): Promise<QueueReport> => {
        redis.setClock(hours);
        time.hours = hours;
        return report();
      };
      await passed(9);
      await accept('later');
      assert.equal((await passed(25)).events, 4, 'nothing has landed');
      await redis.land();
      await passed(25);
      assert.deepEqual(
        (await redis.entries()).map(({ fields }) => /later/.test(fields['body'] ?? '')),
        [true],
      );
      assert.deepEqual(await accept('later'), ['duplicate']);
      await redis.land();
      await passed(50);
      await passed(51);
      assert.equal(await redis.length(), 0);
      assert.deepEqual(await accept('later', 'after'), ['accepted', 'accepted']);
      const slices = (await redis.command('KEYS', '{ingest}:ids:*')) as string[];
      assert.ok(slices.length <= 4, slices.join());
    });
  });

describe('a server whose clock is set back', { concurrency: true }, () => {
  it('knows the ids of events for as long as they have not landed, although it was ahead', async (t) => {
    const { redis, time, report, accept } = await open(t);
    redis.setClock(40 * DAYS);
    await accept('ahead');
    redis.setClock(0);
    await report();
    await accept('after');
    for (const hours of [9, 18, 27, 36, 45]) {
      redis.setClock(hours);
      time.hours = hours;
      await report();
      await accept(`later-${hours}`);
    }
    assert.deepEqual(await accept('ahead', 'after', 'later-9'), ['duplicate', 'duplicate', 'duplicate']);
  });

  it('is reported, keeps the times of the names, and forgets no erasure', async (t) => {
    const { redis, report, accept, read, admin, reader } = await open(t);
    await accept('before');
    redis.setClock(-40 * DAYS);
    const skewed = await report();
    assert.ok(isClose(skewed.clockSkewMs ?? 0, 40 * DAYS * HOUR_MS));
    await accept('after');
    const events = await read();
    for (const { acceptedAtMs } of events) assert.ok(isClose(acceptedAtMs, Date.now()), String(acceptedAtMs));
    await admin.noteErasure('after');
    const erased = await reader.erased(events.map((event, at) => ({ ...event, id: ['before', 'after'][at] })));
    assert.deepEqual([...erased], ['after']);
  });

  it('is trimmed when retention has passed by its own clock', async (t) => {
    const { redis, time, report, accept } = await open(t);
    await accept('before');
    redis.setClock(-40 * DAYS);
    await report();
    await accept('after');
    await redis.land();
    redis.setClock(-40 * DAYS + 25);
    time.hours = 25;
    await report();
    assert.equal(await redis.length(), 0);
  });

  it('is not marked for as long as the names are right', async (t) => {
    const { redis, report, accept } = await open(t);
    await accept('one');
    assert.equal((await report()).clockSkewMs === undefined, false);
    await accept('two');
    assert.equal(
      (await redis.entries()).some(({ fields }) => 'clock' in fields),
      false,
    );
    assert.doesNotMatch(String(await redis.command('GET', '{ingest}:ids')), /!/);
  });
});
