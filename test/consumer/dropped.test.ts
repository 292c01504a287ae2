// Which entries are said to be dropped by the queue: those whose event has no row, and no others.
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { withoutLanded } from '../../lib/consumer/dropped.ts';
import { sorted, type Sorted } from '../../lib/consumer/quarantine.ts';
import type { Warehouse } from '../../lib/ingest/warehouse.ts';
import { createSqliteWarehouse } from '../../lib/sqlite/warehouse.ts';
import { MemoryQueueReader, MemoryQueueStore } from '../support/memory-queue.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

const PRODUCER = 'shop';

type Step = Parameters<typeof withoutLanded>[3];
const atOnce: Step = (_, work) => work();

interface UnderTest {
  readonly reader: MemoryQueueReader;
  readonly warehouse: Warehouse;
  /** What the living replica reads: the entries of a dead one that were not acknowledged, and new ones. */
  readonly batch: () => Promise<Sorted>;
  /** Entries of these events, which a replica took that is dead by now; it noted those that begin with `noted`. */
  readonly taken: (ids: readonly string[]) => Promise<Map<string, string>>;
  readonly drop: (entry: string | undefined) => void;
  readonly add: (id: string) => void;
  readonly land: (id: string, producer?: string) => Promise<unknown>;
}

async function start(t: TestContext): Promise<UnderTest> {
  const store = new MemoryQueueStore();
  const [dead, reader] = [new MemoryQueueReader(store), new MemoryQueueReader(store)];
  await reader.join();
  for (const one of [dead, reader]) await one.register(2);
  const warehouse = createSqliteWarehouse({ path: sqliteStore().uri.slice('sqlite:'.length) });
  t.after(() => warehouse.close());
  await warehouse.prepare();
  const bodyOf = (id: string): string => JSON.stringify({ id, type: 't' });
  return {
    reader,
    warehouse,
    batch: async () => sorted(await reader.read(100, 0, 0)),
    taken: async (ids) => {
      for (const id of ids) store.add(PRODUCER, bodyOf(id));
      const { events } = sorted(await dead.read(100, 0, 0));
      await dead.note(
        0,
        events.filter(({ id }) => id.startsWith('noted')),
      );
      await dead.close();
      return new Map(events.map(({ id, entry }) => [id, entry]));
    },
    drop: (entry) => store.drop(entry ?? ''),
    add: (id) => void store.add(PRODUCER, bodyOf(id)),
    land: (id, producer = PRODUCER) =>
      warehouse.land([{ id, type: 't', producer, body: Buffer.from(bodyOf(id)), acceptedAtMs: 1 }]),
  };
}

const entriesOf = (batch: Sorted | undefined): string[] => (batch?.rejections ?? []).map(({ entry }) => entry);

describe('a batch', () => {
  it('without dropped entries is left as it is, and nobody is asked', async (t) => {
    const { add, batch, reader, warehouse } = await start(t);
    add('a');
    const read = await batch();
    assert.equal(await withoutLanded(read, reader, warehouse, () => assert.fail('asked')), read);
  });

  it('keeps a dropped entry whose event has no row, noted or not, and the row of another producer is none', async (t) => {
    const { taken, drop, land, batch, reader, warehouse } = await start(t);
    const entries = await taken(['noted, lost', 'noted, taken by another', 'not noted']);
    for (const entry of entries.values()) drop(entry);
    await land('noted, taken by another', 'another');
    const left = await withoutLanded(await batch(), reader, warehouse, atOnce);
    assert.deepEqual(entriesOf(left), [...entries.values()]);
    assert.equal(left?.count, 3);
    assert.equal((await reader.lag()).events, 3);
  });

  it('loses a dropped entry whose event has landed, and acknowledges it: nothing is left', async (t) => {
    const { taken, drop, land, batch, reader, warehouse } = await start(t);
    const entries = await taken(['noted']);
    drop(entries.get('noted'));
    await land('noted');
    assert.equal(await withoutLanded(await batch(), reader, warehouse, atOnce), undefined);
    assert.equal((await reader.lag()).events, 0);
  });

  it('loses one that its holder has acknowledged meanwhile', async (t) => {
    const { taken, drop, batch, reader, warehouse } = await start(t);
    const entries = await taken(['not noted']);
    drop(entries.get('not noted'));
    const read = await batch();
    assert.deepEqual(entriesOf(read), [...entries.values()]);
    await reader.acknowledge(read.rejections);
    assert.equal(await withoutLanded(read, reader, warehouse, atOnce), undefined);
  });

  it('keeps everything else beside them: events, other rejections, and those that are lost', async (t) => {
    const { taken, drop, add, land, batch, reader, warehouse } = await start(t);
    const entries = await taken(['noted, landed', 'noted, lost', '\0 is no id', 'noted, there']);
    const [landed, lost] = [entries.get('noted, landed'), entries.get('noted, lost')];
    drop(landed);
    drop(lost);
    await land('noted, landed');
    add('new');
    const left = await withoutLanded(await batch(), reader, warehouse, atOnce);
    assert.deepEqual(
      left?.events.map(({ id }) => id),
      ['noted, there', 'new'],
    );
    assert.deepEqual(
      left.rejections.map(({ entry, code }) => [code, entry === lost]),
      [
        ['dropped_by_queue', true],
        ['invalid_event', false],
      ],
    );
    assert.equal(left.count, 4);
  });
});

describe('while nobody can tell whether an event has landed', () => {
  for (const broken of ['queue', 'warehouse'] as const)
    it(`its entry is neither lost nor acknowledged (no ${broken})`, async (t) => {
      const { taken, drop, add, land, batch, reader, warehouse } = await start(t);
      const entries = await taken(['noted, landed', 'noted, lost']);
      for (const entry of entries.values()) drop(entry);
      await land('noted, landed');
      add('new');
      const step: Step = (needs, work) => (needs === broken ? Promise.resolve(undefined) : work());
      const left = await withoutLanded(await batch(), reader, warehouse, step);
      assert.deepEqual([left?.events.length, left?.rejections, left?.count], [1, [], 1]);
      assert.equal((await reader.lag()).events, 3);
    });

  it('it is asked again', async (t) => {
    const { taken, drop, land, batch, reader, warehouse } = await start(t);
    const entries = await taken(['noted, landed', 'noted, lost']);
    for (const entry of entries.values()) drop(entry);
    await land('noted, landed');
    let away = true;
    const restarted: Warehouse = {
      ...warehouse,
      find: (id, producer) =>
        away && id === 'noted, lost' ? Promise.resolve({ kind: 'unavailable' }) : warehouse.find(id, producer),
    };
    let failures = 0;
    const step: Step = async (needs, work) =>
      work().catch((cause: unknown) => {
        assert.deepEqual([needs, (cause as Error).message], ['warehouse', 'the warehouse cannot be asked']);
        failures += 1;
        away = false;
        return work();
      });
    assert.deepEqual(entriesOf(await withoutLanded(await batch(), reader, restarted, step)), [
      entries.get('noted, lost'),
    ]);
    assert.equal(failures, 1);
  });
});
