import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { QueueFailed, streamOf, type QueueAdmin } from '../../lib/ingest/queue-admin.ts';
import { PRUNE_AGE_MS_MIN } from '../../lib/ingest/warehouse.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { SYSTEM } from '../support/system.ts';
import { InProcess, landing, no, poison } from './in-process.ts';

const DAY_MS = 86_400_000;

describe('prune', () => {
  const admin = new InProcess();
  const daysAgo = (days: number): string => new Date(Date.now() - days * DAY_MS).toISOString();
  const fill = async (ages: readonly number[]): Promise<void> => {
    await admin.warehouse.land(ages.map((age) => landing(`${age}`, { type: age % 2 === 0 ? 'even' : 'odd' })));
    await admin.warehouse.quarantine(ages.map((age) => poison(`${age}`)));
    for (const age of ages)
      admin.sql(`UPDATE events SET landed_at = '${daysAgo(age)}' WHERE id = '${age}';
        UPDATE events_quarantine SET quarantined_at = '${daysAgo(age)}' WHERE entry = 'q/ingest/${age}'`);
  };
  const ids = (): unknown => admin.column('SELECT id FROM events ORDER BY id');
  const quarantined = (): number => admin.column('SELECT entry FROM events_quarantine').length;
  /** Other clocks of the queue and the warehouse. */
  const clocksOf = (t: TestContext) => {
    const { queue, warehouse } = admin.session(t);
    const off = (ms: number) => ({ clock: () => Promise.resolve(Date.now() + ms) });
    const [stream = assert.fail()] = queue.streams;
    return {
      queueOff: (ms: number) => ({
        queue: {
          streams: [...queue.streams, { status: () => stream.status(), ...off(ms) }],
        } as unknown as QueueAdmin,
      }),
      warehouseOff: (ms: number) => ({ warehouse: { ...warehouse, ...off(ms) } }),
    };
  };
  const clockOff = (ms: () => number): Clock =>
    Object.assign(Object.create(SYSTEM.clock) as Clock, { epochMs: () => Date.now() + ms() });

  it('deletes older events, and records it', async (t) => {
    await fill([1, 399, 401, 402]);
    await admin.assertShows(t, 'prune --older-than 400d', 0, 'removed 2 rows from before <time>\n');
    assert.deepEqual([ids(), quarantined()], [['1', '399'], 4]);
    assert.match(JSON.stringify(admin.audit()), /^\[\["prune","events from before 20[-0-9T:.]+Z",2\]\]$/);
    await admin.assertShows(t, 'prune --older-than 400d', 0, 'removed 0 rows from before <time>\n');
  });

  it('deletes events of one type, or quarantine rows', async (t) => {
    await fill([401, 402, 403]);
    await admin.assertShows(t, 'prune --older-than 400d --type odd --json', 0, { removed: 2, before: '<time>' });
    assert.deepEqual(ids(), ['402']);
    await admin.assertShows(t, 'prune --older-than 402d --quarantine', 0, /^removed 2 rows /);
    assert.equal(quarantined(), 1);
  });

  it('keeps rows newer than one hour before the oldest unlanded event', async (t) => {
    await fill([3, 5, 6.02, 7]);
    await admin.redis.command('XADD', 'ingest-b', `${Date.now() - 6 * DAY_MS}-0`, 'producer', 'p', 'body', 'x');
    await admin.redis.command('XGROUP', 'CREATE', 'ingest-b', 'warehouse', '0');
    const told = /^an unlanded event on the queue is older: only rows before <time> are removed$/m;
    const server = admin.redis.uri.replace('redis://', '');
    const queue = admin.queue(t, `dispatcher://${server},${server}`);
    await admin.assertShows(t, 'prune --older-than 2d', 0, undefined, told, { queue });
    assert.deepEqual(ids(), ['3', '5', '6.02']);
  });

  it('measures ages by the clock that is furthest behind', async (t) => {
    await fill([401]);
    const { warehouse } = admin.session(t);
    const behind = { ...warehouse, clock: () => Promise.resolve(Date.now() - 50_000) };
    const { out } = await admin.run(t, 'prune --older-than 2d --json', { warehouse: behind });
    const { before } = JSON.parse(out) as { readonly before: string };
    assert.ok(Date.parse(before) <= Date.now() - PRUNE_AGE_MS_MIN - 50_000, before);
  });

  it('keeps a row that was accepted recently, whatever its landing time', async (t) => {
    await admin.warehouse.land([landing('lately', { acceptedAtMs: Date.now() - DAY_MS }), landing('long ago')]);
    admin.sql(`UPDATE events SET landed_at = '${daysAgo(500)}'`);
    await admin.assertShows(t, 'prune --older-than 400d', 0, /^removed 1 row /);
    assert.deepEqual(ids(), ['lately']);
  });

  it('reads the clock before it asks the queue, which may answer late', async (t) => {
    await fill([1, 3]);
    const stream = streamOf(admin.session(t).queue, '1');
    let passedMs = 0;
    const status = () => stream.status().finally(() => (passedMs = 30 * DAY_MS));
    const queue = { streams: [{ status, clock: () => stream.clock() }] } as unknown as QueueAdmin;
    const clock = clockOff(() => passedMs);
    await admin.assertShows(t, 'prune --older-than 2d', 0, undefined, undefined, { clock, queue });
    assert.deepEqual(ids(), ['1']);
  });

  it('measures ages by the earliest clock', async (t) => {
    const { queueOff, warehouseOff } = clocksOf(t);
    await fill([2 + 20_000 / DAY_MS]);
    for (const change of [queueOff(-50_000), warehouseOff(-50_000), { clock: clockOff(() => -50_000) }])
      await admin.assertShows(t, 'prune --older-than 48h', 0, /^removed 0 rows/, undefined, change);
    await admin.assertShows(t, 'prune --older-than 48h', 0, /^removed 1 row /);
  });

  it('deletes nothing if the clocks of machine, queue or warehouse differ by more than a minute', async (t) => {
    await fill([401]);
    const { queueOff, warehouseOff } = clocksOf(t);
    const told =
      /^nothing was removed: the clocks differ by .* \(this machine's <time>, the queue's <time>.*\); set the clock that is wrong/;
    for (const change of [
      { clock: clockOff(() => 40 * DAY_MS) },
      { clock: clockOff(() => -61_000) },
      queueOff(-61_000),
      warehouseOff(61_000),
      { ...queueOff(-31_000), ...warehouseOff(31_000) },
    ])
      await admin.assertShows(t, 'prune --older-than 400d', 1, '', told, change);
    assert.deepEqual(admin.audit(), []);
    await admin.assertShows(t, 'prune --older-than 400d', 0, undefined, undefined, { clock: clockOff(() => 50_000) });
  });

  it('ends after a page at a signal, and deletes the rest when it is run again', async (t) => {
    await admin.warehouse.land(Array.from({ length: 1_001 }, (_, at) => landing(`${at}`)));
    admin.sql(`UPDATE events SET landed_at = '${daysAgo(401)}'`);
    const stopped = AbortSignal.abort();
    const told = /^interrupted; run again for the rest$/m;
    await admin.assertShows(t, 'prune --older-than 400d', 1, /^removed 1,000 rows /, told, { stopped });
    await admin.assertShows(t, 'prune --older-than 400d', 0, /^removed 1 row /);
  });

  it('deletes nothing after a no, or while the queue is unavailable', async (t) => {
    await fill([401]);
    const { questions } = await admin.assertShows(t, 'prune --older-than 400d', 1, '', '', { confirm: no });
    assert.match(questions.join(), /^Remove all events from before 20[-0-9T:.]+Z, for good\?$/);
    const stream = streamOf(admin.session(t).queue, '1');
    const away = { status: () => Promise.reject(new QueueFailed('1: away')), clock: () => stream.clock() };
    const queue = { streams: [stream, away] } as unknown as QueueAdmin;
    await admin.assertShows(t, 'prune --older-than 400d', QueueFailed, '', '1: away', { queue });
    assert.deepEqual(ids(), ['401']);
  });
});
