// Which entries are said to be dropped by the queue: those whose event has no row, and no others.
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { withoutLanded } from '../../lib/consumer/dropped.ts';
import { classify, type Batch } from '../../lib/consumer/quarantine.ts';
import type { Warehouse } from '../../lib/ingest/warehouse.ts';
import { createSqliteWarehouse } from '../../lib/sqlite/warehouse.ts';
import { MemoryQueueReader, MemoryQueueStore } from '../support/memory-queue.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

const PRODUCER = 'shop';

type Step = Parameters<typeof withoutLanded>[3];
const atOnce: Step = (_, work) => work();

/** Writes down what each step needs. The one of the number `fails` never succeeds. */
function recorded(fails = -1): { readonly step: Step; readonly needs: string[] } {
  const needs: string[] = [];
  return {
    needs,
    step: (need, work) => (needs.push(need) - 1 === fails ? Promise.resolve(undefined) : work()),
  };
}

interface UnderTest {
  readonly reader: MemoryQueueReader;
  readonly warehouse: Warehouse;
  /** What the living replica reads: the entries of a dead one that were not acknowledged, and new ones. */
  readonly batch: () => Promise<Batch>;
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
    batch: async () => classify(await reader.read(100, 0, 0)),
    taken: async (ids) => {
      for (const id of ids) store.add(PRODUCER, bodyOf(id));
      const { events } = classify(await dead.read(100, 0, 0));
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

const entriesOf = (batch: Batch | undefined): string[] => (batch?.rejections ?? []).map(({ entry }) => entry);

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
  });

  it('loses a dropped entry whose event has landed, and acknowledges it: nothing is left', async (t) => {
    const { taken, drop, land, batch, reader, warehouse } = await start(t);
    const entries = await taken(['noted']);
    drop(entries.get('noted'));
    await land('noted');
    assert.equal(await withoutLanded(await batch(), reader, warehouse, atOnce), undefined);
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

describe('what is asked about dropped entries', () => {
  it('is the queue, then the warehouse, and the queue again where something has landed', async (t) => {
    const { taken, drop, land, batch, reader, warehouse } = await start(t);
    for (const entry of (await taken(['noted, landed', 'noted, lost'])).values()) drop(entry);
    await land('noted, landed');
    const { step, needs } = recorded();
    await withoutLanded(await batch(), reader, warehouse, step);
    assert.deepEqual(needs, ['queue', 'queue', 'warehouse', 'queue']);
  });

  it('does not end in an acknowledgement where nothing has landed', async (t) => {
    const { taken, drop, batch, reader, warehouse } = await start(t);
    for (const entry of (await taken(['noted, lost'])).values()) drop(entry);
    const { step, needs } = recorded();
    await withoutLanded(await batch(), reader, warehouse, step);
    assert.deepEqual(needs, ['queue', 'queue', 'warehouse']);
  });

  it('is of the queue alone where none of them was noted', async (t) => {
    const { taken, drop, batch, reader, warehouse } = await start(t);
    for (const entry of (await taken(['not noted'])).values()) drop(entry);
    const { step, needs } = recorded();
    assert.equal((await withoutLanded(await batch(), reader, warehouse, step))?.count, 1);
    assert.deepEqual(needs, ['queue', 'queue']);
  });

  it('is nothing more where their holder has acknowledged all of them', async (t) => {
    const { taken, drop, batch, reader, warehouse } = await start(t);
    for (const entry of (await taken(['noted, landed'])).values()) drop(entry);
    const read = await batch();
    await reader.acknowledge(read.rejections);
    const { step, needs } = recorded();
    assert.equal(await withoutLanded(read, reader, warehouse, step), undefined);
    assert.deepEqual(needs, ['queue']);
  });

  it('is nothing about other rejections', async (t) => {
    const { taken, drop, batch, reader, warehouse } = await start(t);
    const entries = await taken(['noted, lost', '\0 is no id']);
    drop(entries.get('noted, lost'));
    const unacknowledged = t.mock.method(reader, 'unacknowledged');
    const left = await withoutLanded(await batch(), reader, warehouse, atOnce);
    assert.equal(left?.rejections.length, 2);
    assert.deepEqual(
      unacknowledged.mock.calls.map(({ arguments: [asked] }) => asked.map(({ entry }) => entry)),
      [[entries.get('noted, lost')]],
    );
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
    });

  for (const [fails, needs, lost] of [
    [0, ['queue'], 0],
    [1, ['queue', 'queue'], 0],
    [2, ['queue', 'queue', 'warehouse'], 0],
    [3, ['queue', 'queue', 'warehouse', 'queue'], 1],
  ] as const)
    it(`only what was found out before is used, and nothing is acknowledged (step ${fails + 1} fails)`, async (t) => {
      const { taken, drop, land, add, batch, reader, warehouse } = await start(t);
      const entries = await taken(['noted, landed', 'noted, lost']);
      for (const entry of entries.values()) drop(entry);
      await land('noted, landed');
      add('new');
      const { step, needs: asked } = recorded(fails);
      const left = await withoutLanded(await batch(), reader, warehouse, step);
      assert.deepEqual(asked, needs);
      assert.deepEqual(entriesOf(left), [entries.get('noted, lost')].slice(0, lost));
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
