// The spans of events that a dispatcher hands on.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Dispatcher, QUEUES, Traffic } from '../../lib/dispatcher/dispatcher.ts';
import { SendingSpans } from '../../lib/dispatcher/sending-spans.ts';
import type { EventNotes, Outcome } from '../../lib/ingest/queue.ts';
import type { Tracing } from '../../lib/telemetry/tracing.ts';
import { Recorded, submitAll } from '../contract/queue.ts';
import { MemoryQueue, MemoryQueueStore } from '../support/memory-queue.ts';
import { idsOf } from '../support/queue-ids.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const SAMPLED = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const UNSAMPLED = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00';

const SENT = SAMPLED.replace('b7ad6b7169203331', '00f067aa0ba902b7');

type Span = Parameters<Tracing['record']>[0];

/** The spans that are recorded of an event with this outcome, 250 ms after its submission. */
async function spansOf(outcome: Outcome, notes: EventNotes | undefined): Promise<Span[]> {
  const spans: Span[] = [];
  const clock = new VirtualClock();
  const tracing = {
    reserve: () => ({ traceparent: SENT }),
    record: (span: Span) => void spans.push(span),
  } as unknown as Tracing;
  const event = Object.assign(new Recorded('é', 'shop'), { notes });
  const sent = new SendingSpans(tracing, clock, 'ingest-a').traced(event);
  // A wall clock that is set back meanwhile does not change the duration.
  clock.jump(-60_000);
  await clock.advance(250);
  assert.deepEqual(spans, []);
  sent.settle(outcome);
  assert.equal(await event.outcome, outcome);
  return spans;
}

describe('the spans of sending events', () => {
  it('are one of each event whose trace is recorded, with the attributes of messaging', async () => {
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
    it(`say of an event that is ${outcome} that it failed`, async () => {
      const [span] = await spansOf(outcome, { traceparent: SAMPLED });
      assert.equal(span?.error, outcome);
      assert.equal(span?.attributes?.['error.type'], outcome);
    });
  }

  it('leave the event as it is, but for the context of its span', () => {
    const tracing = { reserve: () => ({ traceparent: SENT }), record: () => undefined } as unknown as Tracing;
    const notes = { id: 'other', traceparent: SAMPLED, tracestate: 'a=1' };
    const event = Object.assign(new Recorded('an-id', 'shop'), { notes });
    const sent = new SendingSpans(tracing, new VirtualClock(), 'ingest-a').traced(event);
    assert.deepEqual(
      [sent.id, sent.producer, sent.text, sent.notes],
      [event.id, event.producer, event.text, { ...notes, traceparent: SENT }],
    );
  });

  it('are made by the dispatcher for the queue that the event goes to', async () => {
    const recorded: string[] = [];
    const tracing = { reserve: () => ({ traceparent: SENT }), record: ({ name }: Span) => void recorded.push(name) };
    const stores = [new MemoryQueueStore(), new MemoryQueueStore()] as const;
    const lane = (at: 0 | 1) => ({
      name: QUEUES[at],
      queue: new MemoryQueue(stores[at]),
      traffic: new Traffic({} as ConstructorParameters<typeof Traffic>[0]),
      spans: new SendingSpans(tracing as unknown as Tracing, new VirtualClock(), QUEUES[at]),
    });
    const traffic = lane(1).traffic;
    traffic.count = () => undefined;
    const dispatcher = new Dispatcher([lane(0), { ...lane(1), traffic }]);
    const event = Object.assign(new Recorded(idsOf(1, 'traced', 1)[0] ?? ''), { notes: { traceparent: SAMPLED } });
    assert.deepEqual(await submitAll(dispatcher, [event]), ['accepted']);
    assert.deepEqual(recorded, ['send ingest-b']);
    assert.deepEqual(stores[1].entries[0]?.notes, { traceparent: SENT });
  });

  it('are none where an event has no trace, or one that is not recorded', async () => {
    assert.deepEqual(await spansOf('accepted', undefined), []);
    assert.deepEqual(await spansOf('accepted', { traceparent: UNSAMPLED }), []);
    assert.deepEqual(await spansOf('accepted', { traceparent: 'no trace' }), []);
  });
});
