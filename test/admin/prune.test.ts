import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import { QueueFailed, streamOf } from '../../lib/ingest/queue-admin.ts';
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
    const database = new DatabaseSync(admin.path);
    for (const age of ages) {
      database.prepare('UPDATE events SET landed_at = ? WHERE id = ?').run(daysAgo(age), `${age}`);
      const entry = poison(`${age}`).entry;
      database.prepare('UPDATE events_quarantine SET quarantined_at = ? WHERE entry = ?').run(daysAgo(age), entry);
    }
    database.close();
  };

  it('deletes older events, and records it', async (t) => {
    await fill([1, 399, 401, 402]);
    const { code, out } = await admin.run(t, 'prune --older-than 400d');
    assert.equal(code, 0);
    assert.match(out, /^removed 2 rows from before 20/);
    assert.deepEqual(admin.rows(t, 'SELECT id FROM events ORDER BY id'), [{ id: '1' }, { id: '399' }]);
    assert.equal(admin.rows(t, 'SELECT entry FROM events_quarantine').length, 4);
    const [record] = admin.audit(t) as { command: string; what: string; changed: number }[];
    assert.deepEqual([record?.command, record?.changed], ['prune', 2]);
    assert.match(record?.what ?? '', /^events from before 20/);
    const { code: again, out: none } = await admin.run(t, 'prune --older-than 400d --json');
    assert.deepEqual([again, (JSON.parse(none) as { removed: number }).removed], [0, 0], 'nothing to do is a success');
  });

  it('deletes events of one type, or quarantine rows', async (t) => {
    await fill([401, 402, 403]);
    assert.match((await admin.run(t, 'prune --older-than 400d --type odd --json')).out, /^{"removed":2,/);
    assert.deepEqual(admin.rows(t, 'SELECT id FROM events'), [{ id: '402' }]);
    assert.match((await admin.run(t, 'prune --older-than 402d --quarantine')).out, /^removed 2 rows /);
    assert.equal(admin.rows(t, 'SELECT entry FROM events_quarantine').length, 1);
  });

  it('keeps rows newer than one hour before the oldest unlanded event', async (t) => {
    await fill([3, 5, 6.02, 7]);
    await admin.redis.command('XADD', 'ingest', `${Date.now() - 6 * DAY_MS}-0`, 'producer', 'p', 'body', 'x');
    await admin.redis.command('XGROUP', 'CREATE', 'ingest', 'warehouse', '0');
    const { code, err } = await admin.run(t, 'prune --older-than 2d');
    assert.equal(code, 0);
    assert.match(err, /an unlanded event on the queue is older: only rows before 20/);
    assert.deepEqual(admin.rows(t, 'SELECT id FROM events ORDER BY id'), [{ id: '3' }, { id: '5' }, { id: '6.02' }]);
  });

  it('reads the clock before it asks the queue, which may answer late', async (t) => {
    await fill([1, 3]);
    const { queue } = admin.session(t);
    let passedMs = 0;
    const clock = Object.assign(Object.create(SYSTEM.clock) as Clock, { epochMs: () => Date.now() + passedMs });
    const stream = streamOf(queue, '1');
    const status: typeof stream.status = async () => {
      const answer = await stream.status();
      passedMs = 30 * DAY_MS;
      return answer;
    };
    const late = { streams: [{ status, clock: () => stream.clock() }] } as unknown as typeof queue;
    assert.equal((await admin.run(t, 'prune --older-than 2d', { clock, queue: late })).code, 0);
    assert.deepEqual(admin.rows(t, 'SELECT id FROM events'), [{ id: '1' }]);
  });

  it('deletes nothing if the clocks of machine, queue or warehouse differ by more than a minute', async (t) => {
    await fill([401]);
    const { queue, warehouse } = admin.session(t);
    const off = (ms: number): Partial<Parameters<typeof admin.run>[2]> => ({
      clock: Object.assign(Object.create(SYSTEM.clock) as Clock, { epochMs: () => Date.now() + ms }),
    });
    const late = { clock: () => Promise.resolve(Date.now() - 61_000) };
    const lateQueue = { ...queue, streams: [...queue.streams, late] };
    const lateWarehouse = { ...warehouse, clock: () => Promise.resolve(Date.now() + 61_000) };
    const early = { ...warehouse, clock: () => Promise.resolve(Date.now() + 31_000) };
    const behind = { ...queue, streams: [{ ...late, clock: () => Promise.resolve(Date.now() - 31_000) }] };
    for (const change of [
      off(40 * DAY_MS),
      off(-61_000),
      { queue: lateQueue as unknown as typeof queue },
      { warehouse: lateWarehouse },
      { queue: behind as unknown as typeof queue, warehouse: early },
    ]) {
      const { code, err } = await admin.run(t, 'prune --older-than 400d', change);
      assert.equal(code, 1);
      assert.match(
        err,
        /nothing was removed: the clocks differ by .* \(this machine's 2.*Z, the queue's 2.*Z.*\); set the clock that is wrong/,
      );
    }
    assert.deepEqual(admin.audit(t), []);
    assert.equal((await admin.run(t, 'prune --older-than 400d', off(50_000))).code, 0);
  });

  it('keeps a row that was accepted recently, whatever its landing time', async (t) => {
    await admin.warehouse.land([landing('lately', { acceptedAtMs: Date.now() - DAY_MS }), landing('long ago')]);
    const database = new DatabaseSync(admin.path);
    database.prepare('UPDATE events SET landed_at = ?').run(daysAgo(500));
    database.close();
    assert.match((await admin.run(t, 'prune --older-than 400d')).out, /^removed 1 row /);
    assert.deepEqual(admin.rows(t, 'SELECT id FROM events'), [{ id: 'lately' }]);
  });

  it('deletes nothing after a no, or while the queue is unavailable', async (t) => {
    await fill([401]);
    const { code, questions } = await admin.run(t, 'prune --older-than 400d', { confirm: no });
    assert.equal(code, 1);
    assert.match(questions.join(), /^Remove all events from before 20[-0-9T:.]+Z, for good\?$/);
    const { queue } = admin.session(t);
    const stream = streamOf(queue, '1');
    const unavailable = {
      status: () => Promise.reject(new QueueFailed('partition 1: away')),
      clock: () => stream.clock(),
    };
    const partly = { streams: [stream, unavailable] } as unknown as typeof queue;
    assert.match(
      String((await admin.run(t, 'prune --older-than 400d', { queue: partly })).failure),
      /partition 1: away/,
    );
    assert.equal(admin.rows(t, 'SELECT id FROM events').length, 1);
  });
});
