import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RequestSpans, type AnsweredRequest } from '../../lib/gateway/request-spans.ts';
import { problem } from '../../lib/ingest/errors.ts';
import type { Tracing } from '../../lib/telemetry/tracing.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const SAMPLED = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
const RESERVED = '00-4bf92f3577b34da6a3ce929d0e0e4736-aaaaaaaaaaaaaaaa-01';
const OK = { status: 202, contentType: 'text/plain', body: '' };
const REQUEST: AnsweredRequest = {
  head: { method: 'POST', target: '/events?a=?b' },
  route: '/events',
  requestId: 'mine',
  address: '10.0.0.1',
  producer: undefined,
  trace: { traceparent: SAMPLED, tracestate: 'vendor=1' },
  startMs: 5,
  enqueued: undefined,
};

async function recording() {
  const spans: Parameters<Tracing['record']>[0][] = [];
  const clock = new VirtualClock();
  await clock.advance(10);
  const tracing: Tracing = {
    reserve: () => ({ traceparent: RESERVED }),
    record: (span) => {
      spans.push(span);
      return { traceparent: SAMPLED };
    },
    close: () => Promise.resolve(),
  };
  return { clock, spans, requestSpans: new RequestSpans(tracing, { system: 'redis', destination: 'q' }, clock) };
}

describe('the span of a request', () => {
  it('has no producer if none is known, no query, and times of the wall clock', async () => {
    const { clock, spans, requestSpans } = await recording();
    requestSpans.ended(REQUEST, OK);
    const [span] = spans;
    assert.deepEqual(span?.attributes, {
      'http.request.method': 'POST',
      'http.route': '/events',
      'url.scheme': 'https',
      'url.path': '/events',
      'client.address': '10.0.0.1',
      'network.protocol.version': '1.1',
      'ingest.request_id': 'mine',
      'http.response.status_code': 202,
    });
    assert.equal(span.startMs, clock.epochMs() - 5);
    assert.equal(span.endMs, clock.epochMs());
    requestSpans.ended({ ...REQUEST, producer: 'shop', head: { method: 'POST', target: '/events' } }, OK);
    assert.equal(spans[1]?.attributes['ingest.producer'], 'shop');
    assert.equal(spans[1].attributes['url.path'], '/events');
  });

  it('reports that the client aborted, and has no status', async () => {
    const { spans, requestSpans } = await recording();
    requestSpans.ended(REQUEST, undefined);
    assert.equal(spans[0]?.attributes['error.type'], 'aborted');
    assert.equal('http.response.status_code' in spans[0].attributes, false);
    assert.equal(spans[0].error, undefined);
  });

  it('is absent if the caller records no trace and nothing was refused', async () => {
    const { spans, requestSpans } = await recording();
    requestSpans.ended({ ...REQUEST, trace: undefined }, OK);
    requestSpans.ended({ ...REQUEST, trace: { traceparent: SAMPLED.replace(/1$/, '0') } }, undefined);
    assert.deepEqual(spans, []);
  });
});

describe('the span of sending an event', () => {
  it('has the times and the context of the event, and an error if the queue failed', async () => {
    const { clock, spans, requestSpans } = await recording();
    const context = { traceparent: RESERVED };
    const enqueued = { id: 'a', bytes: 7, startMs: 6, endMs: 9, context };
    requestSpans.ended({ ...REQUEST, enqueued }, OK);
    requestSpans.ended({ ...REQUEST, enqueued }, problem('queueUnavailable', 'why'));
    const [, good, , failed] = spans;
    assert.equal(good?.startMs, clock.epochMs() - 4);
    assert.equal(good.endMs, clock.epochMs() - 1);
    assert.equal(good.context, context);
    assert.equal('error.type' in good.attributes, false);
    assert.equal(failed?.attributes['error.type'], 'QUEUE_UNAVAILABLE');
    assert.equal(failed.error, 'QUEUE_UNAVAILABLE');
  });
});
