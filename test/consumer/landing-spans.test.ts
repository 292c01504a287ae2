import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { landingSpans, type LandingSpans } from '../../lib/consumer/landing-spans.ts';
import { rejected, classify as classified, type Entered, type EnteredEvent } from '../../lib/consumer/classify.ts';
import type { Delivery, EventNotes } from '../../lib/ingest/queue.ts';
import type { FinishedSpan, Tracing } from '../../lib/telemetry/tracing.ts';

const SAMPLED = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
const NOT_SAMPLED = SAMPLED.replace(/01$/, '00');

function recorder(): { readonly spans: LandingSpans; readonly recorded: FinishedSpan[] } {
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
  return { spans, recorded };
}

const delivery = (id: string, notes: EventNotes, body = `{"id":"${id}","type":"t"}`): Delivery => ({
  entry: '1-1',
  source: 'q/ingest',
  producer: 'shop',
  body: Buffer.from(body),
  notes,
  acceptedAtMs: 1,
});

const classify = (some: readonly Delivery[]): Entered[] => classified(some, 0);

describe('the span of an event', () => {
  it('that landed is in the trace of its producer and covers the transaction', () => {
    const { spans, recorded } = recorder();
    spans(classify([delivery('order-1', { traceparent: SAMPLED, tracestate: 'a=1' })]), 1_000, 1_040);
    const [{ endMs, ...span }] = recorded as [FinishedSpan];
    assert.equal(recorded.length, 1);
    assert.equal(endMs, 1_040);
    assert.deepEqual(span, {
      name: 'process ingest',
      kind: 'consumer',
      parent: { traceparent: SAMPLED, tracestate: 'a=1' },
      startMs: 1_000,
      attributes: {
        'messaging.system': 'redis',
        'messaging.destination.name': 'ingest',
        'messaging.consumer.group.name': 'warehouse',
        'messaging.operation.name': 'process',
        'messaging.operation.type': 'process',
        'messaging.message.body.size': 27,
        'ingest.producer': 'shop',
        'messaging.message.id': 'order-1',
      },
      error: undefined,
    });
  });

  it('in quarantine has the reason, and the id if there is one', () => {
    const { spans, recorded } = recorder();
    const [event, ...rejections] = classify([
      delivery('order-1', { traceparent: SAMPLED }),
      delivery('', { traceparent: SAMPLED }, 'no json'),
    ]);
    spans([rejected(event as EnteredEvent, 'id_conflict', 'words'), ...rejections], 1, 2);
    assert.deepEqual(
      recorded.map(({ error, attributes }) => [error, attributes['error.type'], attributes['messaging.message.id']]),
      [
        ['id_conflict', 'id_conflict', 'order-1'],
        ['invalid_event', 'invalid_event', undefined],
      ],
    );
    assert.equal('messaging.message.id' in (recorded[1]?.attributes ?? {}), false);
  });

  it('is missing if the producer sent no trace or does not record it', () => {
    const { spans, recorded } = recorder();
    const notes: readonly EventNotes[] = [{}, { traceparent: NOT_SAMPLED }, { traceparent: SAMPLED }];
    spans(classify(notes.map((each, at) => delivery(`order-${at}`, each))), 1, 2);
    assert.deepEqual(
      recorded.map(({ attributes }) => attributes['messaging.message.id']),
      ['order-2'],
    );
  });
});
