import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { CLAIM_IDLE_MS, Landing } from '../../lib/consumer/landing.ts';
import { landingSpans } from '../../lib/consumer/landing-spans.ts';
import { consumerMetrics } from '../../lib/consumer/metrics.ts';
import { classify as classified, isRejection, rejected, type Entered } from '../../lib/consumer/classify.ts';
import { erasedBody } from '../../lib/ingest/erased.ts';
import type { Delivery } from '../../lib/ingest/queue.ts';
import { BatchTooSlow, type LandedBefore, type LandingEvent, type Warehouse } from '../../lib/ingest/warehouse.ts';
import { createLog } from '../../lib/process/log.ts';
import type { FinishedSpan, Tracing } from '../../lib/telemetry/tracing.ts';
import { createSqliteWarehouse } from '../../lib/sqlite/warehouse.ts';
import { sqliteStore } from '../support/warehouse-store.ts';
import { SYSTEM } from '../support/system.ts';

/** More failures than repeatedly halving a batch can cause. */
const FAILURES_MAX = 50;
const KIB = 1 << 10;
const MIB = 1 << 20;
const SAMPLED = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

const delivery = (at: number, bytes: number, change: Partial<Delivery> = {}): Delivery => ({
  ...{ entry: `1-${at}`, source: 'q/ingest', producer: 'shop', notes: {}, acceptedAtMs: 1 },
  body: Buffer.from(`{"id":"order-${at}","type":"t","data":"${'x'.repeat(bytes)}"}`),
  ...change,
});
const deliveries = (count: number, bytes: number, from = 0): Delivery[] =>
  Array.from({ length: count }, (_, at) => delivery(from + at, bytes));

interface Changes {
  /** Selects the batches that time out. */
  readonly slow?: (batch: readonly LandingEvent[]) => boolean;
  /** Selects the calls to `haveLanded` that fail. */
  readonly fails?: (asked: readonly LandedBefore[]) => boolean;
  /** The ids of erased events, if the answer may be old. */
  readonly erased?: (ageMsMax?: number) => readonly string[];
}

/** Lands events in a real SQLite file. */
async function start(t: TestContext, { slow = () => false, fails = () => false, erased = () => [] }: Changes = {}) {
  const store = sqliteStore();
  const real = createSqliteWarehouse({ path: store.uri.slice('sqlite:'.length) });
  t.after(() => real.close());
  await real.prepare();
  const calls: (readonly LandingEvent[])[] = [];
  const asked: (readonly LandedBefore[])[] = [];
  const warehouse: Warehouse = {
    ...real,
    land: (batch) => {
      calls.push(batch);
      return slow(batch) ? Promise.reject(new BatchTooSlow('slow')) : real.land(batch);
    },
    haveLanded: (events) => {
      asked.push(events);
      return fails(events) ? Promise.reject(new BatchTooSlow('slow')) : real.haveLanded(events);
    },
  };
  const metrics = consumerMetrics(SYSTEM.clock);
  const log = createLog('test', 'error').child({}, { level: 'silent' });
  const logged: object[] = [];
  t.mock.method(log, 'error', (fields: object) => logged.push(fields));
  const recorded: FinishedSpan[] = [];
  const tracing: Tracing = {
    reserve: (parent) => parent,
    record: (span) => {
      recorded.push(span);
      return { traceparent: SAMPLED };
    },
    close: () => Promise.resolve(),
  };
  const spans = landingSpans(tracing, { system: 'redis', destination: 'ingest', group: 'warehouse' });
  const landing = new Landing({
    ...SYSTEM,
    reader: { erased: (_, ageMsMax) => Promise.resolve(new Set(erased(ageMsMax))) },
    warehouse,
    telemetry: { metrics, log, spans },
  });
  const landAll = async (batch: readonly Entered[]): Promise<string[]> => {
    const done: string[] = [];
    let failures = 0;
    for (let left = batch; left.length > 0;) {
      const some = await landing.landSome(left).catch((cause: unknown) => {
        failures += 1;
        if (failures > FAILURES_MAX) throw cause;
        return undefined;
      });
      if (some === undefined) continue;
      done.push(...some.done.map(({ entry }) => entry));
      assert.ok(some.rest.length < left.length, 'a transaction brings the batch forward');
      left = some.rest;
    }
    return done;
  };
  return { landing, warehouse, metrics, store, logged, calls, asked, recorded, landAll };
}

const bytesOf = (batch: readonly LandingEvent[]): number => batch.reduce((sum, { body }) => sum + body.length, 0);

const classify = (some: readonly Delivery[], agoMs = 0): Entered[] => classified(some, SYSTEM.clock.ms() - agoMs);

/** Entries whose events a schema refuses. */
const refused = (deliveries: readonly Delivery[]): Entered[] =>
  classify(deliveries).map((one) => (isRejection(one) ? one : rejected(one, 'schema', 'refused')));

describe('landing', () => {
  it('divides a batch into transactions without losing an event', async (t) => {
    const { store, calls, landAll } = await start(t);
    const batch = deliveries(150, 400 * KIB);
    assert.deepEqual((await landAll(classify(batch))).toSorted(), batch.map(({ entry }) => entry).toSorted());
    assert.equal(await store.count(), batch.length);
    assert.equal(calls.flat().length, batch.length, 'each was written once');
    assert.ok(calls.length > 4, String(calls.length));
    assert.ok(calls.every((call) => bytesOf(call) <= 16 * MIB));
    assert.ok(
      calls.some((call) => bytesOf(call) > 12 * MIB),
      'it has grown',
    );
    assert.ok(bytesOf(calls[0] ?? []) <= MIB, 'it began small');
    calls.length = 0;
    await landAll(classify([200, 201, 202].map((at) => delivery(at, at < 202 ? 17 * MIB : 10))));
    assert.deepEqual(
      calls.map((call) => call.length),
      [1, 1, 1],
      'a transaction holds one event at least',
    );
  });

  it('keeps one quarantine row for each event if several share an entry name', async (t) => {
    const { store, landAll } = await start(t);
    const one = (id: string, producer: string): Delivery =>
      delivery(0, 0, { entry: '12-0', producer, body: Buffer.from(JSON.stringify({ id, type: 't' })) });
    const bare = (text: string): Delivery => delivery(0, 0, { entry: '12-0', body: Buffer.from(text) });
    const entries = [one('first', 'p'), one('second', 'p'), one('second', 'a\0b'), bare('{"v":1}'), bare('{"v":2}')];
    for (const some of [entries, entries.toReversed()]) for (const entry of some) await landAll(refused([entry]));
    assert.equal((await store.quarantine()).length, entries.length);
  });

  it('removes the quarantine row of a replayed event that landed, and keeps the row of one that is refused again', async (t) => {
    const { store, metrics, landAll } = await start(t);
    const noJson = Buffer.from('no json');
    const names = async (): Promise<readonly string[]> => (await store.quarantine()).map(({ entry }) => entry);
    await landAll(refused([delivery(1, 0, { entry: '0-1' })]));
    await landAll(classify([delivery(0, 0, { entry: '0-2', body: noJson })]));
    const [good = '', bad = ''] = await names();
    assert.deepEqual(
      [good, bad].map((name) => name.replace(/~[0-9a-f]{16}$/, '')),
      ['q/ingest/0-1', 'q/ingest/0-2'],
    );
    const replays = classify([delivery(1, 0, { replayOf: good }), delivery(2, 0, { body: noJson, replayOf: bad })]);
    await landAll(replays);
    assert.deepEqual(await names(), [bad]);
    const waited = async (): Promise<unknown> =>
      /delay_seconds_count (\d+)/.exec(await metrics.registry.metrics())?.[1];
    assert.equal(await waited(), '0', 'a replayed event waited for an operator');
    // An event with the name of no row lands.
    const noRows = ['q/ingest/\0-1', '', 'x'.repeat(10_000)].map((replayOf, at) => delivery(5 + at, 0, { replayOf }));
    await landAll(classify(noRows));
    assert.equal(await store.count(), 1 + noRows.length);
    // After a crash before the acknowledgment, the consumer lands the same entries again.
    await landAll(replays);
    assert.deepEqual(await names(), [bad]);
    assert.equal(await store.count(), 1 + noRows.length);
  });

  it('stores no body of an event that was erased before, during or after a first try', async (t) => {
    const now: string[] = [];
    const later: string[] = [];
    const { store, landAll } = await start(t, { erased: (ageMsMax) => (ageMsMax === 0 ? [...now, ...later] : now) });
    const bodies = async (): Promise<unknown> => [
      Object.fromEntries((await store.events()).map(({ id, body }) => [id, body])),
      Object.fromEntries((await store.quarantine()).map(({ id, body }) => [id, String(body)])),
    ];
    await landAll(refused([delivery(1, 1)]));
    now.push('order-1', 'order-2');
    await landAll(classify([delivery(1, 1), delivery(2, 1), delivery(3, 1)]));
    const erased = (at: number, type?: string): string => erasedBody(`order-${at}`, type);
    const landed = { 'order-1': erased(1, 't'), 'order-2': erased(2, 't'), 'order-3': String(delivery(3, 1).body) };
    assert.deepEqual(await bodies(), [landed, {}], 'its row in quarantine is gone');
    later.push('order-4');
    await landAll(refused([delivery(4, 1), delivery(5, 1), delivery(2, 1, { entry: '2-2' })]));
    const kept = { 'order-4': erased(4, 't'), 'order-5': String(delivery(5, 1).body) };
    assert.deepEqual(await bodies(), [landed, kept]);
  });

  it('does not quarantine an event that landed before a schema refused it', async (t) => {
    const { store, metrics, landAll } = await start(t);
    await landAll(classify([delivery(1, 0)]));
    assert.deepEqual(await landAll(refused([delivery(1, 0, { entry: '2-1' })])), ['2-1']);
    assert.deepEqual([await store.quarantine(), metrics.duplicates.value], [[], 1]);
    assert.deepEqual(await landAll(refused([delivery(2, 0), delivery(1, 5, { entry: '2-2' })])), ['1-2', '2-2']);
    assert.equal((await store.quarantine()).length, 2, 'one that never landed, and one of another body');
  });

  it('ends in one row if only one of two consumers has a schema that refuses an event, and one was frozen', async (t) => {
    const { store, landAll, warehouse } = await start(t);
    await landAll(refused([delivery(1, 0)]));
    await landAll(classify([delivery(1, 0)], CLAIM_IDLE_MS));
    const quarantine = warehouse.quarantine.bind(warehouse);
    warehouse.quarantine = async (rows) => {
      await quarantine(rows);
      await landAll(classify([delivery(2, 0)]));
    };
    await landAll(refused([delivery(2, 0)]));
    assert.deepEqual([await store.count(), await store.quarantine()], [2, []]);
  });

  it('halves the next transaction if the warehouse cannot report which events have landed', async (t) => {
    const { store, asked, landAll } = await start(t, { fails: (events) => events.length > 10 });
    await landAll(refused(deliveries(100, 0)));
    const lengths = asked.map((events) => events.length);
    assert.deepEqual(lengths.slice(0, 5), [100, 50, 25, 12, 6]);
    assert.equal((await store.quarantine()).length, 100);
  });

  it('halves a transaction that is too slow, and grows again later', async (t) => {
    let most = 3;
    const { store, calls, landAll } = await start(t, { slow: (batch) => batch.length > most });
    assert.equal((await landAll(classify(deliveries(20, 20 * KIB)))).length, 20);
    assert.equal(await store.count(), 20);
    const tried = calls.slice(0, 4).map((call) => call.length);
    assert.ok(
      tried.every((length, at) => at === 0 || length <= (tried[at - 1] ?? 0) / 2) && tried[0] === 20 && tried[3] === 2,
      String(tried),
    );
    most = Number.POSITIVE_INFINITY;
    await landAll(classify(deliveries(200, 20 * KIB, 20)));
    const longest = Math.max(...calls.map((call) => call.length));
    assert.ok(longest > 50, `the last call is what is left, and the longest has ${longest}`);
  });

  it('lands an event under the id and the trace of its entry, without a trace context that is invalid', async (t) => {
    const { warehouse, landAll } = await start(t);
    const traceparent = SAMPLED;
    const notes = [
      { id: '/shop order-0', traceparent },
      { traceparent: 'none', tracestate: 'a=1' },
      { tracestate: 'a=1' },
    ];
    await landAll(classify(notes.map((each, at) => delivery(at, 1, { notes: each }))));
    const found = await Promise.all(['/shop order-0', 'order-1', 'order-2'].map((id) => warehouse.find(id, 'shop')));
    assert.deepEqual(
      found.map((row) => row.kind === 'landed' && row.traceparent),
      [traceparent, undefined, undefined],
    );
  });

  it('quarantines an invalid event with the reason, and the id if it is readable, and logs the first', async (t) => {
    const { landAll, store, logged } = await start(t);
    const traceparent = SAMPLED;
    const cases: readonly (readonly [Partial<Delivery>, id: string | null, reason: string])[] = [
      [{ notes: { id: 'a\0b', traceparent } }, 'order-0', 'invalid_entry: the entry names an invalid id'],
      [{ producer: undefined }, 'order-1', 'invalid_entry: the entry names no producer'],
      [
        { body: Buffer.from('{'), notes: { id: '/shop 2' } },
        '/shop 2',
        "invalid_event: the body is not JSON: Expected property name or '}' in JSON at position 1",
      ],
      [{ body: Buffer.from('{}') }, null, 'invalid_event: /id is missing; /type is missing'],
      [{ body: Buffer.from('{"id":"4"}'), notes: { id: '/shop 4' } }, '/shop 4', 'invalid_event: type is missing'],
    ];
    await landAll(classify(cases.map(([change], at) => delivery(at, 1, change))));
    assert.deepEqual(
      (await store.quarantine()).map(({ id, reason }) => [id, reason]),
      cases.map(([, id, reason]) => [id, reason]),
    );
    assert.deepEqual(logged, [{ entries: cases.length, entry: '1-0', reason: cases[0]?.[2], traceparent }]);
  });

  it('writes a row for each event and a quarantine row for each other entry', async (t) => {
    const { landing, store, metrics } = await start(t);
    const batch = classify([
      delivery(0, 1),
      delivery(1, 1, { body: Buffer.from('{') }),
      delivery(2, 1, { producer: 'a\0b' }),
      delivery(3, 1, { body: delivery(0, 1).body, producer: 'thief' }),
      delivery(4, 1, { body: undefined, producer: undefined }),
      delivery(5, 1),
    ]);
    const { done, rest: left } = await landing.landSome(batch);
    assert.deepEqual(done, batch);
    assert.deepEqual(left, []);
    const rows = await store.quarantine();
    assert.deepEqual(
      rows.map(({ entry, reason }) => [entry.replace(/~[0-9a-f]{16}$/, ''), reason.split(':')[0]]),
      [
        ['q/ingest/1-1', 'invalid_event'],
        ['q/ingest/1-2', 'refused_by_warehouse'],
        ['q/ingest/1-3', 'id_conflict'],
        ['q/ingest/1-4', 'invalid_entry'],
      ],
    );
    assert.deepEqual(
      (await store.events()).map(({ id }) => id),
      ['order-0', 'order-5'],
    );
    const reasons = (sample: { value: number }): boolean => sample.value === 1;
    assert.equal((await metrics.quarantined.get()).values.filter(reasons).length, rows.length, 'each reason once');
    assert.deepEqual((await landing.landSome(batch)).done, batch, 'as after a crash');
    assert.deepEqual([metrics.landed.value, metrics.duplicates.value], [2, 2]);
    const text = await metrics.registry.metrics();
    const [count, sum] = ['count', 'sum'].map((end) =>
      Number(new RegExp(`delay_seconds_${end} (\\S+)`).exec(text)?.[1]),
    );
    assert.ok(count === 2 && Math.abs(Number(sum) / count - Date.now() / 1_000) < 60, 'they were accepted in 1970');
  });

  it('records a span in the trace of each event whose producer records it, over the transaction', async (t) => {
    const { landAll, recorded } = await start(t);
    const traced = (at: number, traceparent = SAMPLED, change: Partial<Delivery> = {}): Delivery =>
      delivery(at, 1, { notes: { traceparent, tracestate: 'a=1' }, ...change });
    const before = Date.now();
    await landAll(
      classify([
        traced(0),
        delivery(1, 1),
        traced(2, SAMPLED.replace(/01$/, '00')),
        traced(3, SAMPLED, { body: delivery(0, 1).body, producer: 'thief' }),
        traced(4, SAMPLED, { body: Buffer.from('no json') }),
      ]),
    );
    const [{ startMs, endMs, ...span } = assert.fail(), ...rejected] = recorded;
    assert.ok(before <= startMs && startMs <= endMs && endMs <= Date.now());
    assert.deepEqual(span, {
      name: 'process ingest',
      kind: 'consumer',
      parent: { traceparent: SAMPLED, tracestate: 'a=1' },
      attributes: {
        'messaging.system': 'redis',
        'messaging.destination.name': 'ingest',
        'messaging.consumer.group.name': 'warehouse',
        'messaging.operation.name': 'process',
        'messaging.operation.type': 'process',
        'messaging.message.body.size': delivery(0, 1).body?.length,
        'ingest.producer': 'shop',
        'messaging.message.id': 'order-0',
      },
      error: undefined,
    });
    assert.deepEqual(
      rejected.map(({ error, attributes }) => [error, attributes['error.type'], attributes['messaging.message.id']]),
      [
        ['id_conflict', 'id_conflict', 'order-0'],
        ['invalid_event', 'invalid_event', undefined],
      ],
    );
  });
});
