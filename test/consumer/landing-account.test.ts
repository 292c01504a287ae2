// What landing asks of the warehouse, call by call, and what it tells of it: metrics, log, spans, and the words of a
// quarantine row.
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { LandingSpans } from '../../lib/consumer/landing-spans.ts';
import { Landing } from '../../lib/consumer/landing.ts';
import { consumerMetrics, type ConsumerMetrics } from '../../lib/consumer/metrics.ts';
import { QUARANTINE_REASONS, classify } from '../../lib/consumer/quarantine.ts';
import type { Delivery } from '../../lib/ingest/queue.ts';
import { BatchTooSlow, type Warehouse } from '../../lib/ingest/warehouse.ts';
import type { Log } from '../../lib/process/log.ts';
import { exposition } from '../../lib/telemetry/exposition.ts';
import { createSqliteWarehouse } from '../../lib/sqlite/warehouse.ts';
import { sqliteStore, type SqliteStore } from '../support/warehouse-store.ts';
import { SYSTEM } from '../support/system.ts';

const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

const delivery = (id: string, change: Partial<Delivery> = {}): Delivery => ({
  entry: `1-${id}`,
  source: 'q/ingest',
  producer: 'shop',
  body: Buffer.from(JSON.stringify({ id, type: 't' })),
  notes: {},
  acceptedAtMs: Date.now(),
  ...change,
});

interface UnderTest {
  readonly landing: Landing;
  readonly store: SqliteStore;
  readonly metrics: ConsumerMetrics;
  /** The warehouse's calls that write: the method, and the ids or entries that it was given. */
  readonly calls: (readonly [method: string, names: readonly string[]])[];
  readonly logged: (readonly [fields: Record<string, unknown>, text: string])[];
  /** Ids of the spans that were recorded, with what went wrong. */
  readonly spans: (readonly [id: unknown, error: string | undefined])[];
}

/**
 * Landing into a real file; a `failure` is what the warehouse says instead of landing or of removing rows; `isDumb`:
 * its look-ups have no answer.
 */
async function start(
  t: TestContext,
  failure: (method: 'land' | 'release') => Error | undefined = () => undefined,
  isDumb = false,
): Promise<UnderTest> {
  const store = sqliteStore();
  const real = createSqliteWarehouse({ path: store.uri.slice('sqlite:'.length) });
  t.after(() => real.close());
  await real.prepare();
  const calls: UnderTest['calls'] = [];
  const warehouse: Warehouse = {
    ...real,
    find: (id, producer) => (isDumb ? Promise.resolve({ kind: 'unavailable' }) : real.find(id, producer)),
    land: (batch) => {
      calls.push(['land', batch.map(({ id }) => id)]);
      const failed = failure('land');
      return failed === undefined ? real.land(batch) : Promise.reject(failed);
    },
    quarantine: (entries) => {
      calls.push(['quarantine', entries.map(({ entry }) => entry)]);
      return real.quarantine(entries);
    },
    release: (entries) => {
      calls.push(['release', entries.map(({ entry }) => entry)]);
      const failed = failure('release');
      return failed === undefined ? real.release(entries) : Promise.reject(failed);
    },
  };
  const logged: [Record<string, unknown>, string][] = [];
  const log = { error: (fields: Record<string, unknown>, text: string) => logged.push([fields, text]) };
  const recorded: [unknown, string | undefined][] = [];
  const spans = new LandingSpans(
    {
      reserve: (parent) => parent,
      record: ({ attributes, error }) => {
        recorded.push([attributes['messaging.message.id'], error]);
        return { traceparent: TRACEPARENT };
      },
      close: () => Promise.resolve(),
    },
    { system: 'memory', destination: 'ingest', group: 'warehouse' },
  );
  const metrics = consumerMetrics(QUARANTINE_REASONS, SYSTEM.clock);
  const landing = new Landing({ ...SYSTEM, warehouse, metrics, log: log as unknown as Log, spans });
  return { landing, store, metrics, calls, logged, spans: recorded };
}

/** The sum in seconds and the number of the delays that were observed. */
async function delays({ registry }: ConsumerMetrics): Promise<readonly [sum: number, count: number]> {
  const text = await registry.metrics();
  const value = (name: string): number =>
    Number(new RegExp(`^ingest_landing_delay_seconds_${name} (.+)$`, 'm').exec(text)?.[1]);
  return [value('sum'), value('count')];
}

describe('a transaction', () => {
  it('of good events is one call, and nothing is said of it', async (t) => {
    const { landing, calls, logged } = await start(t);
    await landing.landSome(classify([delivery('a'), delivery('b')]));
    assert.deepEqual(calls, [['land', ['a', 'b']]]);
    assert.deepEqual(logged, []);
  });

  it('of entries that are no events writes them to the quarantine, and lands nothing', async (t) => {
    const { landing, calls, logged, metrics } = await start(t);
    await landing.landSome(
      classify([
        delivery('a', { body: Buffer.from('{'), notes: { traceparent: TRACEPARENT } }),
        delivery('b', { producer: undefined }),
      ]),
    );
    assert.deepEqual(calls, [['quarantine', ['q/ingest/1-a', 'q/ingest/1-b']]]);
    const reason = 'invalid_event: the body is not JSON: line 1, column 2';
    assert.deepEqual(logged, [
      [{ entries: 2, entry: '1-a', reason, traceparent: TRACEPARENT }, 'entries put in quarantine'],
    ]);
    assert.deepEqual(
      QUARANTINE_REASONS.map((code) => metrics.quarantined.counter({ reason: code }).value),
      [1, 1, 0, 0, 0, 0],
    );
  });

  it('of entries that are no events is cut by weight too', async (t) => {
    const { landing, calls } = await start(t);
    const bodies = Array.from({ length: 3 }, () => Buffer.alloc(600 << 10, 'x'));
    const first = await landing.landSome(classify(bodies.map((body, at) => delivery(String(at), { body }))));
    assert.deepEqual([first.done.length, first.left.length], [1, 2]);
    assert.deepEqual(calls, [['quarantine', ['q/ingest/1-0']]]);
  });

  it('is larger than the one before only where that was as large as it might be', async (t) => {
    const { landing, calls } = await start(t);
    for (let small = 0; small < 6; small += 1) await landing.landSome(classify([delivery(`small-${small}`)]));
    const large = (id: string): Delivery =>
      delivery(id, { body: Buffer.from(JSON.stringify({ id, type: 't', data: 'x'.repeat(400 << 10) })) });
    await landing.landSome(classify(['a', 'b', 'c', 'd', 'e', 'f', 'g'].map(large)));
    assert.deepEqual(calls.slice(6), [['land', ['a', 'b']]]);
  });

  it('that fails because the warehouse is away fails as it is: nothing is halved, put aside or made smaller', async (t) => {
    let away = true;
    const { landing, calls, store } = await start(t, () => (away ? new Error('away') : undefined));
    const batch = classify(['a', 'b', 'c'].map((id) => delivery(id)));
    await assert.rejects(landing.landSome(batch), /^Error: away$/);
    await assert.rejects(landing.landSome(batch), /^Error: away$/);
    away = false;
    await landing.landSome(batch);
    assert.deepEqual(
      calls,
      Array.from({ length: 3 }, () => ['land', ['a', 'b', 'c']]),
    );
    assert.equal(await store.count(), 3);
  });

  it('that took too long is halved in weight, again and again, down to one event', async (t) => {
    let slow = true;
    const { landing, calls } = await start(t, () => (slow ? new BatchTooSlow('slow') : undefined));
    const batch = classify(['a', 'b', 'c', 'd', 'e'].map((id) => delivery(id)));
    for (let tries = 0; tries < 5; tries += 1) await assert.rejects(landing.landSome(batch), BatchTooSlow);
    slow = false;
    const { done, left } = await landing.landSome(batch);
    assert.deepEqual(
      calls.map(([, ids]) => ids.length),
      [5, 2, 1, 1, 1, 1],
    );
    assert.deepEqual([done.length, left.length], [1, 4]);
  });
});

describe('a replayed event', () => {
  const replayOf = 'q/ingest/0-1';

  it('that lands has its quarantine row removed, and no other row', async (t) => {
    const { landing, calls } = await start(t);
    await landing.landSome(classify([delivery('a'), delivery('b', { replayOf }), delivery('c')]));
    assert.deepEqual(calls, [
      ['land', ['a', 'b', 'c']],
      ['release', [replayOf]],
    ]);
  });

  it('that is refused again keeps it', async (t) => {
    const { landing, calls } = await start(t);
    await landing.landSome(classify([delivery('a', { producer: 'first' })]));
    calls.length = 0;
    await landing.landSome(classify([delivery('a', { replayOf }), delivery('b')]));
    assert.deepEqual(calls, [
      ['land', ['a', 'b']],
      ['quarantine', [replayOf]],
    ]);
  });

  it('counts as landed, and says nothing about the delay of landing', async (t) => {
    const { landing, metrics } = await start(t);
    await landing.landSome(classify([delivery('a', { replayOf, acceptedAtMs: 1 })]));
    assert.equal(metrics.landed.value, 1);
    assert.deepEqual(await delays(metrics), [0, 0]);
  });
});

describe('what is counted', () => {
  it('is each event by what became of it, and the seconds from its acceptance to its row', async (t) => {
    const { landing, metrics } = await start(t);
    const acceptedAtMs = Date.now() - 5_000;
    await landing.landSome(classify([delivery('a', { acceptedAtMs }), delivery('b', { acceptedAtMs })]));
    const [sum, count] = await delays(metrics);
    assert.equal(count, 2);
    assert.ok(sum >= 10 && sum < 60, String(sum));
    await landing.landSome(classify([delivery('a'), delivery('a', { producer: 'thief' }), delivery('c')]));
    assert.deepEqual([metrics.landed.value, metrics.duplicates.value], [3, 1]);
    assert.equal(metrics.quarantined.counter({ reason: 'id_conflict' }).value, 1);
    assert.equal((await delays(metrics))[1], 3);
  });

  it('is an entry of the quarantine once, also where the rest of its transaction has to be tried again', async (t) => {
    let failing = true;
    const { landing, metrics, logged, spans } = await start(t, (method) =>
      failing && method === 'release' ? new Error('serialization failure') : undefined,
    );
    const thief = delivery('a', { producer: 'thief', entry: '1-thief', notes: { traceparent: TRACEPARENT } });
    const batch = classify([delivery('a'), thief, delivery('b', { replayOf: 'q/ingest/0-1' })]);
    await assert.rejects(landing.landSome(batch), /serialization failure/);
    failing = false;
    await landing.landSome(batch);
    assert.equal(metrics.quarantined.counter({ reason: 'id_conflict' }).value, 1);
    assert.deepEqual([logged.length, spans.length], [1, 1]);
  });

  it('has the trace of an event that is recorded as the example of its delay', async (t) => {
    const { landing, metrics } = await start(t);
    await landing.landSome(
      classify([delivery('a', { notes: { traceparent: TRACEPARENT.replace(/01$/, '00') } }), delivery('b')]),
    );
    assert.doesNotMatch((await exposition(metrics.registry, true)).text, /trace_id/);
    await landing.landSome(classify([delivery('c', { notes: { traceparent: TRACEPARENT } })]));
    assert.match((await exposition(metrics.registry, true)).text, /trace_id="4bf92f3577b34da6a3ce929d0e0e4736"/);
  });

  it('is no delay below zero where the clock of the queue is ahead', async (t) => {
    const { landing, metrics } = await start(t);
    await landing.landSome(classify([delivery('a', { acceptedAtMs: Date.now() + 3_600_000 })]));
    assert.deepEqual(await delays(metrics), [0, 1]);
  });
});

describe('an event that its type refuses', () => {
  const refusing = { problemsOf: () => ['refused'] };

  it('is a duplicate where the very event has landed', async (t) => {
    const { landing, metrics, calls } = await start(t);
    await landing.landSome(classify([delivery('a')]));
    calls.length = 0;
    const { done } = await landing.landSome(classify([delivery('a', { entry: '1-again' })], refusing));
    assert.deepEqual(calls, []);
    assert.equal(metrics.duplicates.value, 1);
    assert.deepEqual(
      done.map(({ entry }) => entry),
      ['1-again'],
    );
  });

  it('is tried again while the warehouse does not say whether it has landed', async (t) => {
    const { landing, calls } = await start(t, () => undefined, true);
    await assert.rejects(
      landing.landSome(classify([delivery('a')], refusing)),
      /^Error: the warehouse does not answer a look-up$/,
    );
    assert.deepEqual(calls, []);
  });
});

describe('what is told of an event that cannot land', () => {
  it('is a span with the reason in place of one that it landed', async (t) => {
    const { landing, spans } = await start(t);
    const notes = { traceparent: TRACEPARENT };
    const thief = delivery('a', { notes, producer: 'thief', entry: '1-thief' });
    await landing.landSome(classify([delivery('a', { notes }), thief, delivery('b', { notes })]));
    assert.deepEqual(spans, [
      ['a', undefined],
      ['b', undefined],
      ['a', 'id_conflict'],
    ]);
  });

  it('is a span with the reason where its producer has used the id before', async (t) => {
    const { landing, spans, store, metrics } = await start(t);
    const notes = { traceparent: TRACEPARENT };
    const again = delivery('a', { notes, entry: '1-again', body: Buffer.from('{"id":"a","type":"t","try":2}') });
    await landing.landSome(classify([delivery('a', { notes }), again]));
    assert.deepEqual(spans, [
      ['a', undefined],
      ['a', 'id_reused'],
    ]);
    const [row] = await store.quarantine();
    assert.equal(row?.reason, 'id_reused: the id belongs to an earlier event of this producer with another body');
    assert.equal(metrics.quarantined.counter({ reason: 'id_reused' }).value, 1);
  });

  it('is why, in words for its producer, and for the operator which entry it was', async (t) => {
    const { landing, store, logged } = await start(t);
    await store.refuse('bad', true);
    const bad = delivery('bad', { body: Buffer.from('{"id":"bad","type":"bad"}') });
    await landing.landSome(classify([delivery('a'), bad, delivery('a', { producer: 'thief', entry: '1-thief' })]));
    const rows = await store.quarantine();
    assert.deepEqual(
      rows.map(({ entry, id }) => [entry, id]),
      [
        ['q/ingest/1-bad', 'bad'],
        ['q/ingest/1-thief', 'a'],
      ],
    );
    assert.match(rows[0]?.reason ?? '', /^refused_by_warehouse: the warehouse cannot store this event \(.+\)$/);
    assert.equal(rows[1]?.reason, "id_conflict: the id belongs to another producer's event");
    const [fields, text] = logged[0] ?? [];
    assert.deepEqual([text, fields?.['entry']], ['the warehouse refuses an event', '1-bad']);
    assert.ok(fields !== undefined && 'err' in fields);
  });
});
