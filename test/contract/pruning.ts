import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import type { WarehouseAdmin } from '../../lib/ingest/warehouse-admin.ts';
import type { WarehouseStore } from '../support/warehouse-store.ts';
import type { LandingEvent, PruneCursor, Pruning, QuarantinedEntry, Warehouse } from '../../lib/ingest/warehouse.ts';

export interface PruningUnderTest {
  readonly warehouse: Warehouse;
  readonly admin: WarehouseAdmin;
  readonly store: WarehouseStore;
}

interface Filled {
  readonly prune: WarehouseAdmin['prune'];
  readonly keys: (table: Pruning['table']) => Promise<readonly string[]>;
}

const event = (id: string, type: string): LandingEvent => ({
  id,
  type,
  producer: 'shop',
  body: Buffer.from(JSON.stringify({ id, type })),
  acceptedAtMs: 7,
});
const entry = (name: string): QuarantinedEntry => ({
  entry: name,
  producer: 'shop',
  reason: 'r',
  acceptedAtMs: 7,
  body: Buffer.of(0),
});
const LATER_MS = Date.UTC(2100, 0, 1);
const ACCEPTED_LATE_MS = Date.UTC(2090, 0, 1);

export function describePruning(name: string, start: () => Promise<PruningUnderTest>): void {
  describe(`old rows of ${name}, removed by an operator`, () => {
    const filled = async (t: TestContext, acceptedAtMs = 7): Promise<Filled> => {
      const { store, warehouse, admin } = await start();
      t.after(() => Promise.all([warehouse.close(), admin.close()]));
      await warehouse.prepare();
      await warehouse.land(
        ['a', 'b', 'c', 'd', 'e'].map((id, at) => ({ ...event(id, at % 2 === 0 ? 'even' : 'odd'), acceptedAtMs })),
      );
      await warehouse.quarantine([entry('x'), entry('y')].map((one) => ({ ...one, acceptedAtMs })));
      const keys = async (table: Pruning['table']): Promise<readonly string[]> =>
        table === 'events'
          ? (await store.events()).map(({ id }) => id)
          : (await store.quarantine()).map((row) => row.entry);
      return { prune: (...step) => admin.prune(...step), keys };
    };

    it('are removed in steps of limited size', async (t) => {
      const { prune, keys } = await filled(t);
      const steps: number[] = [];
      let from: PruneCursor | undefined;
      do {
        const { removed, next } = await prune({ table: 'events', beforeMs: LATER_MS }, from, 2);
        steps.push(removed);
        from = next;
      } while (from !== undefined);
      assert.deepEqual(steps, [2, 2, 1, 0]);
      assert.deepEqual(await keys('events'), []);
      assert.deepEqual(await keys('quarantine'), ['x', 'y'], 'the quarantine is pruned apart');
    });

    it('are removed by type, from between other types', async (t) => {
      const { prune, keys } = await filled(t);
      const pruning: Pruning = { table: 'events', beforeMs: LATER_MS, type: 'even' };
      const first = await prune(pruning, undefined, 2);
      assert.equal(first.removed, 1);
      assert.equal((await prune(pruning, first.next, 9)).removed, 2);
      assert.deepEqual(await keys('events'), ['b', 'd']);
    });

    it('stay if they were accepted after the time', async (t) => {
      const { prune, keys } = await filled(t, ACCEPTED_LATE_MS);
      for (const table of ['events', 'quarantine'] as const) {
        const { removed, next } = await prune({ table, beforeMs: ACCEPTED_LATE_MS }, undefined, 9);
        assert.deepEqual([removed, next === undefined], [0, false], 'they are examined, and kept');
      }
      assert.equal((await keys('events')).length, 5);
    });

    it('are removed only if they are older than the time', async (t) => {
      const { prune, keys } = await filled(t);
      for (const table of ['events', 'quarantine'] as const)
        assert.deepEqual(await prune({ table, beforeMs: Date.now() - 60_000 }, undefined, 9), {
          removed: 0,
          next: undefined,
        });
      assert.equal((await keys('events')).length, 5);
      assert.equal((await prune({ table: 'quarantine', beforeMs: LATER_MS }, undefined, 9)).removed, 2);
      assert.deepEqual([await keys('quarantine'), (await keys('events')).length], [[], 5]);
    });
  });
}
