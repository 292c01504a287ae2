// The contract suite that every implementation of lib/ingest/warehouse-admin.ts must pass.
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { after, before, describe, it, type TestContext } from 'node:test';
import { erasedBody } from '../../lib/ingest/erased.ts';
import type { LandingEvent, PruneCursor, Pruning, QuarantinedEntry, Warehouse } from '../../lib/ingest/warehouse.ts';
import { auditLines, type QuarantineFilter, type WarehouseAdmin } from '../../lib/ingest/warehouse-admin.ts';
import { eventually } from '../support/scope.ts';

export interface WarehouseAdminUnderTest {
  readonly warehouse: Warehouse;
  readonly admin: WarehouseAdmin;
  /** Returns the rows of `ingest_audit` without their ids, with `at` in Unix milliseconds. */
  audit(): Promise<readonly unknown[]>;
  readonly rest: RegExp;
  close(): Promise<void>;
}

const event = (id: string): LandingEvent => ({
  id,
  type: 't',
  producer: 'shop',
  body: Buffer.from(`{"id":"${id}","type":"t"}`),
  acceptedAtMs: 7,
});
const poison = (entry: string, change: Partial<QuarantinedEntry> = {}): QuarantinedEntry => ({
  entry: `q/ingest/${entry}`,
  producer: 'a\\b',
  reason: 'invalid_event: x',
  acceptedAtMs: 7,
  body: Buffer.of(0, 255),
  ...change,
});
const ALL: QuarantineFilter = { reason: undefined, sinceMs: undefined };

export function describeWarehouseAdmin(name: string, start: () => Promise<WarehouseAdminUnderTest>): void {
  describe(`${name} as an operator sees it`, () => {
    let store: WarehouseAdminUnderTest;
    let warehouse: Warehouse;
    let admin: WarehouseAdmin;
    before(async () => {
      store = await start();
      ({ warehouse, admin } = store);
      await warehouse.prepare();
    });
    after(async () => {
      await admin.close();
      await warehouse.close();
      await store.close();
    });
    const listed = async (filter: QuarantineFilter): Promise<readonly string[][]> => {
      const pages: string[][] = [];
      for await (const page of admin.quarantineList(filter))
        pages.push(page.map(({ entry }) => entry.replace('q/ingest/', '')));
      return pages;
    };

    it('counts nothing in empty tables', async () => {
      assert.deepEqual(await admin.counts(), { events: 0, estimated: false, quarantine: [] });
      assert.deepEqual(await listed(ALL), []);
      assert.equal(await admin.landed('one'), undefined);
      assert.equal(await admin.quarantineRow('none'), undefined);
    });

    it('returns each row unchanged, with its times', async () => {
      await warehouse.land([event('one')]);
      const traceparent = 'trace';
      await warehouse.quarantine([poison('1-1', { id: 'one', traceparent })]);
      const sinceMs = Date.now();
      await eventually('the clock has gone on', () => Date.now() > sinceMs);
      await warehouse.quarantine([
        poison('1-2', { reason: 'id_conflict: y', id: 'one' }),
        poison('1-3', { reason: 'bare' }),
      ]);
      const row = await admin.landed('one');
      assert.deepEqual(
        { ...row, landedAtMs: 0 },
        { id: 'one', type: 't', producer: 'shop', acceptedAtMs: 7, landedAtMs: 0, body: '{"id":"one","type":"t"}' },
      );
      assert.ok(Math.abs(Date.now() - (row?.landedAtMs ?? 0)) < 60_000);
      const first = await admin.quarantineRow('q/ingest/1-1');
      assert.deepEqual(
        { ...first, quarantinedAtMs: 0 },
        { ...poison('1-1', { id: 'one', traceparent }), quarantinedAtMs: 0, bodyBytes: 2 },
      );
      assert.ok(Math.abs(Date.now() - (first?.quarantinedAtMs ?? 0)) < 60_000);
      const third = await admin.quarantineRow('q/ingest/1-3');
      assert.ok(third !== undefined && third.id === undefined && third.traceparent === undefined);
      const oldestFirst = (await admin.quarantineOf('one')).map(({ entry }) => entry);
      assert.deepEqual(oldestFirst, ['q/ingest/1-1', 'q/ingest/1-2']);
      assert.deepEqual(await admin.quarantineOf('two'), []);
    });

    it('counts by the code of a reason, and selects by reason and by time for lists, counts and names alike', async () => {
      await warehouse.quarantine([poison('1-4')]);
      const codes = ['invalid_event', 'bare', 'id_conflict'].map((code, at) => ({ code, rows: at === 0 ? 2 : 1 }));
      assert.deepEqual(
        await admin.counts(),
        { events: 1, estimated: false, quarantine: codes },
        'the most frequent first',
      );
      const newestMs = (await admin.quarantineRow('q/ingest/1-4'))?.quarantinedAtMs ?? 0;
      assert.equal((await listed({ ...ALL, sinceMs: newestMs })).flat()[0], '1-4', 'since includes its instant');
      const since = { ...ALL, sinceMs: newestMs + 1 };
      const conflict = { ...ALL, reason: 'id_conflict' };
      assert.deepEqual(await listed(conflict), [['1-2']]);
      assert.deepEqual(await listed({ ...ALL, reason: 'bare' }), [['1-3']]);
      assert.deepEqual([await listed(since), await listed({ ...since, reason: 'bare' })], [[], []]);
      assert.equal((await listed({ ...ALL, sinceMs: Date.now() - 60_000 })).flat().length, 4);
      assert.deepEqual(
        [await admin.quarantineCount(ALL), await admin.quarantineCount(conflict), await admin.quarantineCount(since)],
        [4, 1, 0],
      );
      assert.deepEqual(await admin.quarantineNames(ALL, 'q/ingest/1-1', 2), ['q/ingest/1-2', 'q/ingest/1-3']);
      assert.deepEqual(await admin.quarantineNames(conflict, '', 9), ['q/ingest/1-2']);
      assert.deepEqual(await admin.quarantineNames(since, '', 9), []);
      assert.deepEqual(await admin.present(['q/ingest/1-1', 'none']), new Set(['q/ingest/1-1']));
    });

    it('lists the newest first, in pages, each row once', async () => {
      const names = Array.from({ length: 2_500 }, (_, at) => `p-${String(at).padStart(4, '0')}`);
      await warehouse.quarantine(names.map((entry) => poison(entry, { reason: 'page: x' })));
      const pages = await listed({ ...ALL, reason: 'page' });
      assert.deepEqual(
        pages.map(({ length }) => length),
        [1_000, 1_000, 500],
      );
      assert.deepEqual(pages.flat().toSorted(), names);
      assert.ok(
        (await listed(ALL))[0]?.every((entry) => entry.startsWith('p-')),
        'the newest',
      );
      assert.equal(await admin.drop(names.map((entry) => `q/ingest/${entry}`)), 2_500);
    });

    it('inserts the row of an event once, and none that the warehouse refuses', async () => {
      await admin.land({ ...event('two'), body: Buffer.from('{"erased":true}') });
      await admin.land(event('two'));
      assert.equal((await admin.landed('two'))?.body, '{"erased":true}');
      assert.equal((await admin.landed('two'))?.acceptedAtMs, 7);
      await admin.land({ ...event('three'), producer: 'a\0b' });
      assert.equal(await admin.landed('three'), undefined);
    });

    it('returns the rows of a type that landed since a time, the oldest first, each once', async () => {
      const since = Date.now();
      const ids = Array.from({ length: 250 }, (_, at) => `since-${String(at).padStart(3, '0')}`);
      await warehouse.land(ids.slice(0, 130).map((id) => ({ ...event(id), type: 'since' })));
      await warehouse.land([...ids.slice(130).map((id) => ({ ...event(id), type: 'since' })), event('other')]);
      const found: string[] = [];
      for await (const page of admin.landedSince('since', since - 1_000))
        for (const { id, body } of page) {
          assert.equal(body, event(id).body.toString());
          found.push(id);
        }
      assert.deepEqual(found, ids);
      for await (const page of admin.landedSince('since', Date.now() + 60_000)) assert.fail(`${page.length} rows`);
    });

    it('overwrites and removes the rows that are named, and no others', async () => {
      await admin.overwriteLanded('one', '{}');
      await admin.overwriteQuarantined('q/ingest/1-1', '{"x":1}');
      assert.equal((await admin.landed('one'))?.body, '{}');
      assert.equal((await admin.landed('two'))?.body, '{"erased":true}');
      assert.equal((await admin.quarantineRow('q/ingest/1-1'))?.body.toString(), '{"x":1}');
      assert.deepEqual((await admin.quarantineRow('q/ingest/1-2'))?.body, Buffer.of(0, 255));
      assert.equal(await admin.drop(['q/ingest/1-1', 'none']), 1);
      assert.equal(await admin.quarantineCount(ALL), 3);
      assert.match(String(await admin.eraseTraces()), store.rest);
    });

    it('writes a record of a change, and its count when it has ended', async () => {
      const record = { id: 'a', atMs: 7, actor: 'me@here', command: 'drop', what: '--all' };
      const { id: _, atMs: at, ...shown } = record;
      await admin.audit({ ...record, changed: undefined });
      assert.deepEqual(await store.audit(), [{ ...shown, at, changed: null }]);
      await admin.audit({ ...record, changed: 3 });
      assert.deepEqual(await store.audit(), [{ ...shown, at, changed: 3 }]);
    });

    it('returns rows by their ids, with digests of their bodies, and says which are erased', async () => {
      const odd = ['with space', '"quoted"\\', 'caf\u00e9 \u{1f600}'];
      const bodies = odd.map((id) => JSON.stringify({ id, type: 't', text: '\u20ac' }));
      await warehouse.land(odd.map((id, at) => ({ ...event(id), body: Buffer.from(bodies[at] ?? '') })));
      await warehouse.land([{ ...event('gone'), body: Buffer.from(erasedBody('gone', 't')) }]);
      await warehouse.land([{ ...event('like'), body: Buffer.from('{"id":"like","type":"t","n":1,"erased":true}') }]);
      const rows = await admin.rowsOf([...odd, 'gone', 'like', 'none']);
      const byId = new Map(rows.map((row) => [row.id, row]));
      for (const [at, id] of odd.entries())
        assert.deepEqual(byId.get(id), {
          ...{ id, producer: 'shop', acceptedAtMs: 7 },
          ...{ digest: hash('sha256', bodies[at] ?? ''), erased: false },
        });
      assert.deepEqual([byId.size, byId.get('gone')?.erased, byId.get('like')?.erased], [5, true, false]);
      await warehouse.quarantine([poison('7-7', { id: String(odd[1]) })]);
      assert.deepEqual(await admin.quarantinedIds([...odd, 'none']), new Set([odd[1]]));
    });

    it('reads back the names of removals since a time, in pages, and no ambiguous ones', async () => {
      const record = { actor: 'me@here', command: 'erase', changed: undefined };
      const names = Array.from({ length: 25 }, (_, at) => (at % 2 === 0 ? [`e-${at}`] : [`a ${at}`, `b ${at}`]));
      for (const [at, some] of names.entries())
        await admin.audit({ ...record, id: `r-${at}`, atMs: 100_000 + at, what: auditLines(some) });
      await admin.audit({ ...record, id: 'old', atMs: 200_000, what: 'one two' });
      await admin.audit({ ...record, id: 'other', atMs: 300_000, command: 'dropped', what: 'q/s/1-1', changed: 1 });
      const read = async (command: 'erase' | 'dropped', sinceMs: number): Promise<unknown[]> => {
        const found: unknown[] = [];
        for await (const one of admin.removals(command, sinceMs)) if (one.names.length > 0) found.push(one);
        return found;
      };
      assert.deepEqual(
        await read('erase', 100_000),
        names.map((some, at) => ({ names: some, atMs: 100_000 + at, isOpen: true })),
      );
      assert.deepEqual(await read('dropped', 300_000), [{ names: ['q/s/1-1'], atMs: 300_000, isOpen: false }]);
    });
  });

  describePruning(name, start);
}

const LATER_MS = Date.UTC(2100, 0, 1);
const ACCEPTED_LATE_MS = Date.UTC(2090, 0, 1);

function describePruning(name: string, start: () => Promise<WarehouseAdminUnderTest>): void {
  describe(`old rows of ${name}, removed by an operator`, () => {
    const filled = async (t: TestContext, acceptedAtMs = 7) => {
      const store = await start();
      const { warehouse, admin } = store;
      t.after(async () => {
        await Promise.all([warehouse.close(), admin.close()]);
        await store.close();
      });
      await warehouse.prepare();
      const ids = ['a', 'b', 'c', 'd', 'e'];
      const typed = ids.map((id, at) => ({ ...event(id), type: at % 2 === 0 ? 'even' : 'odd', acceptedAtMs }));
      await warehouse.land(typed);
      const entries = [poison('x', { acceptedAtMs }), poison('y', { acceptedAtMs })];
      await warehouse.quarantine(entries);
      const keys = async (table: Pruning['table']): Promise<readonly string[]> =>
        table === 'events'
          ? (await admin.rowsOf(ids)).map(({ id }) => id).sort()
          : [...(await admin.present(entries.map(({ entry }) => entry)))].sort();
      return { prune: (...step: Parameters<WarehouseAdmin['prune']>) => admin.prune(...step), keys };
    };

    it('are removed in steps of limited size, by type from between other types, and the quarantine apart', async (t) => {
      const { prune, keys } = await filled(t);
      const removedBy = async (pruning: Pruning, limit: number): Promise<number[]> => {
        const steps: number[] = [];
        let from: PruneCursor | undefined;
        do {
          const { removed, next } = await prune(pruning, from, limit);
          steps.push(removed);
          from = next;
        } while (from !== undefined);
        return steps;
      };
      assert.deepEqual(await removedBy({ table: 'events', beforeMs: LATER_MS, type: 'even' }, 2), [1, 1, 1, 0]);
      assert.deepEqual(await keys('events'), ['b', 'd']);
      assert.deepEqual(await removedBy({ table: 'events', beforeMs: LATER_MS }, 1), [1, 1, 0]);
      assert.deepEqual([await keys('events'), await keys('quarantine')], [[], ['q/ingest/x', 'q/ingest/y']]);
      assert.deepEqual(await removedBy({ table: 'quarantine', beforeMs: LATER_MS }, 9), [2, 0]);
      assert.deepEqual(await keys('quarantine'), []);
    });

    it('stay if they are not older than the time, or were accepted after it', async (t) => {
      const { prune, keys } = await filled(t, ACCEPTED_LATE_MS);
      for (const table of ['events', 'quarantine'] as const) {
        const { removed, next } = await prune({ table, beforeMs: ACCEPTED_LATE_MS }, undefined, 9);
        assert.deepEqual([removed, next === undefined], [0, false], 'they are examined, and kept');
        assert.deepEqual(await prune({ table, beforeMs: Date.now() - 60_000 }, undefined, 9), {
          ...{ removed: 0, next: undefined },
        });
      }
      assert.deepEqual([(await keys('events')).length, (await keys('quarantine')).length], [5, 2]);
    });
  });
}
