// The spans of events that a dispatcher hands on.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { TracedQueue } from '../../lib/dispatcher/traced-queue.ts';
import type { EventNotes, Outcome, Queue } from '../../lib/ingest/queue.ts';
import type { Tracing } from '../../lib/telemetry/tracing.ts';
import { Recorded, submitAll } from '../contract/queue.ts';
import { MemoryQueue, MemoryQueueStore } from '../support/memory-queue.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const SAMPLED = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const UNSAMPLED = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00';

const SENT = SAMPLED.replace('b7ad6b7169203331', '00f067aa0ba902b7');

type Span = Parameters<Tracing['record']>[0];

async function spansOf(outcome: Outcome, notes: EventNotes | undefined): Promise<Span[]> {
  const spans: Span[] = [];
  const clock = new VirtualClock();
  const answering: Queue = {
    submit: (submission) => void clock.after(250, () => submission.settle(outcome)),
    find: () => Promise.resolve({ kind: 'unknown' }),
    state: () => ({ available: false, reason: 'a test' }),
    states: () => [],
    close: () => Promise.resolve(),
  };
  const tracing = {
    reserve: () => ({ traceparent: SENT }),
    record: (span: Span) => void spans.push(span),
  } as unknown as Tracing;
  const event = Object.assign(new Recorded('é', 'shop'), { notes });
  const outcomes = submitAll(new TracedQueue(answering, tracing, clock, 'ingest-a'), [event]);
  // A wall clock that is set back meanwhile does not change the duration.
  clock.jump(-60_000);
  await clock.advance(250);
  assert.deepEqual(await outcomes, [outcome]);
  return spans;
}

describe('a queue that makes spans', () => {
  it('makes one of each event whose trace is recorded, with the attributes of messaging', async () => {
    const [span, ...more] = await spansOf('accepted', { traceparent: SAMPLED });
    assert.deepEqual(more, []);
    assert.ok(span !== undefined);
    assert.equal(span.endMs - span.startMs, 250);
    const { name, kind, error, attributes, parent, context } = span;
    assert.deepEqual([parent, context], [{ traceparent: SAMPLED }, { traceparent: SENT }]);
    assert.deepEqual({ name, kind, error }, { name: 'send ingest-a', kind: 'producer', error: undefined });
    assert.deepEqual(attributes, {
      'messaging.system': 'redis',
      'messaging.destination.name': 'ingest-a',
      'messaging.operation.name': 'send',
      'messaging.operation.type': 'send',
      'messaging.message.id': 'é',
      'messaging.message.body.size': Buffer.byteLength(new Recorded('é', 'shop').text),
      'ingest.producer': 'shop',
    });
  });

  for (const outcome of ['unavailable', 'shed'] as const) {
    it(`says of an event that is ${outcome} that it failed`, async () => {
      const [span] = await spansOf(outcome, { traceparent: SAMPLED });
      assert.equal(span?.error, outcome);
      assert.equal(span?.attributes?.['error.type'], outcome);
    });
  }

  it('is otherwise the queue below it', async () => {
    const [store, tracing] = [new MemoryQueueStore(), {} as Tracing];
    const below = new MemoryQueue(store);
    const traced = new TracedQueue(below, tracing, new VirtualClock(), 'ingest-a');
    assert.deepEqual(await submitAll(traced, [new Recorded('an-id', 'shop')]), ['accepted']);
    assert.equal((await traced.find('an-id', 'shop')).kind, 'found');
    assert.deepEqual([traced.state(), traced.states()], [{ available: true }, [{ available: true }]]);
    await traced.close();
    assert.equal(below.state().available, false);
  });

  it('hands an event on with the context of its span', async () => {
    const [store, clock] = [new MemoryQueueStore(), new VirtualClock()];
    const tracing = { reserve: () => ({ traceparent: SENT }), record: () => undefined } as unknown as Tracing;
    const event = Object.assign(new Recorded('an-id', 'shop'), { notes: { traceparent: SAMPLED, tracestate: 'a=1' } });
    await submitAll(new TracedQueue(new MemoryQueue(store), tracing, clock, 'ingest-a'), [event]);
    assert.deepEqual(store.entries[0]?.notes, { traceparent: SENT, tracestate: 'a=1' });
  });

  it('makes none of an event without a trace, or whose trace is not recorded', async () => {
    assert.deepEqual(await spansOf('accepted', undefined), []);
    assert.deepEqual(await spansOf('accepted', { traceparent: UNSAMPLED }), []);
    assert.deepEqual(await spansOf('accepted', { traceparent: 'no trace' }), []);
  });
});
