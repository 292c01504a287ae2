// One request and its answer: that it is settled once, counted once, and when its connection ends.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { headFault } from '../../lib/gateway/exchange.ts';
import { NO_ROUTE, RouteMeter } from '../../lib/gateway/request-meter.ts';
import type { RequestSpans } from '../../lib/gateway/request-spans.ts';
import { FAULTS, type ProtocolFault } from '../../lib/http/request.ts';
import { CATALOGUE, problem } from '../../lib/ingest/errors.ts';
import { exposition } from '../../lib/telemetry/exposition.ts';
import { exchanging } from '../support/exchange.ts';

const OK = { status: 200, contentType: 'text/plain', body: 'ok' };
const REFUSED = problem('invalidEvent', 'wrong');
const TOO_LARGE = problem('eventTooLarge', 'long');
const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
/** A longer rest costs the connection. */
const REST_BYTES_MAX = 65_536;

describe('an exchange', () => {
  it('is answered once, and counts once', () => {
    const { exchange, request, counted } = exchanging();
    exchange.answer(undefined);
    assert.equal(exchange.ended, false);
    exchange.answer(OK);
    assert.equal(exchange.ended, true);
    exchange.answer({ ...OK, status: 201 });
    assert.deepEqual(request.answers, [{ answer: OK, close: false }]);
    assert.equal(counted(200), 1);
    assert.equal(counted(201), 0);
  });

  it('that the client gave up counts as that, once, and is not answered', () => {
    const { exchange, request, metrics, counted } = exchanging();
    request.listener?.aborted();
    exchange.aborted();
    exchange.answer(OK);
    assert.equal(exchange.fault('timeout'), false);
    assert.deepEqual(request.answers, []);
    assert.equal(metrics.aborted.value, 1);
    assert.equal(counted(499), 1);
    assert.equal(counted(200), 0);
  });

  it('that was answered is not given up any more', () => {
    const { exchange, metrics, counted } = exchanging();
    exchange.answer(OK);
    exchange.aborted();
    assert.equal(metrics.aborted.value, 0);
    assert.equal(counted(499), 0);
  });

  for (const fault of Object.keys(FAULTS) as ProtocolFault[])
    it(`of which the rest cannot be read (${fault}) is answered with that, and closes`, () => {
      const { exchange, request, metrics } = exchanging();
      const { refusal, detail } = FAULTS[fault];
      const { status, code } = CATALOGUE[refusal];
      assert.equal(request.listener?.fault(fault), true);
      assert.equal(request.listener.fault(fault), false);
      assert.deepEqual(request.answers, [{ answer: problem(refusal, detail), close: true }]);
      assert.deepEqual(request.statuses, [status]);
      assert.equal(metrics.errors.counter({ code }).value, 1);
      assert.equal(exchange.ended, true);
    });

  it('tells who holds something for it, once, that it is over, before its answer leaves', () => {
    for (const end of ['answer', 'aborted', 'fault'] as const) {
      const { exchange, request } = exchanging();
      let told = 0;
      exchange.holder = {
        over: () => {
          told += 1;
          assert.equal(request.answers.length, 0);
          assert.equal(exchange.ended, true);
        },
      };
      for (let times = 0; times < 2; times += 1) {
        if (end === 'answer') exchange.answer(OK);
        else if (end === 'aborted') exchange.aborted();
        else exchange.fault('malformed');
      }
      assert.equal(told, 1, end);
    }
  });

  it('gives its answer the fields that were to come with it, behind its own', () => {
    const { exchange, request } = exchanging();
    exchange.answerWith(['RateLimit', '1']);
    exchange.answer({ ...OK, headers: ['Allow', 'GET'] });
    assert.deepEqual(request.answers[0]?.answer.headers, ['Allow', 'GET', 'RateLimit', '1']);
    const bare = exchanging();
    bare.exchange.answerWith(['RateLimit', '1']);
    bare.exchange.answer(OK);
    assert.deepEqual(bare.request.answers[0]?.answer, { ...OK, headers: ['RateLimit', '1'] });
  });

  it('ends its connection behind a refusal where a long rest of its body is to come', () => {
    for (const [answer, restBytes, close] of [
      [REFUSED, REST_BYTES_MAX, false],
      [REFUSED, REST_BYTES_MAX + 1, true],
      [TOO_LARGE, 0, false],
      [TOO_LARGE, 1, true],
      [OK, REST_BYTES_MAX + 1, false],
    ] as const) {
      const { exchange, request } = exchanging();
      request.restBytes = restBytes;
      exchange.answer(answer);
      assert.equal(request.answers[0]?.close, close, `${answer.status} ${restBytes}`);
    }
  });

  it('ends its connection while the gateway stops, where it is the latest request', () => {
    for (const latest of [true, false]) {
      const { exchange, request } = exchanging({}, { draining: () => true });
      request.latest = latest;
      exchange.answer(OK);
      assert.equal(request.answers[0]?.close, latest);
    }
  });

  it('counts a refusal by its code, and too much in flight by itself', () => {
    const { exchange, metrics } = exchanging();
    exchange.answer(REFUSED);
    assert.equal(metrics.errors.counter({ code: 'INVALID_EVENT' }).value, 1);
    assert.equal(metrics.refusedOverload.value, 0);
    const over = exchanging();
    over.exchange.answer(problem('queueOverloaded', 'much'));
    assert.equal(over.metrics.refusedOverload.value, 1);
  });

  it('has its span when it ends: with its answer, what became of its event, or that it was given up', () => {
    const spans: (readonly unknown[])[] = [];
    const recorded = { ended: (...given: readonly unknown[]) => void spans.push(given) } as unknown as RequestSpans;
    const enqueued = { id: 'a', bytes: 1, startMs: 0, endMs: 1, context: undefined };
    const answered = exchanging({ traceparent: TRACEPARENT }, { spans: recorded });
    answered.exchange.noteEnqueued(enqueued);
    answered.exchange.answer(OK);
    exchanging({}, { spans: recorded }).exchange.aborted();
    const about = { method: 'POST', target: '/events', route: '/events', requestId: 'mine', address: '10.0.0.1' };
    const trace = { traceparent: TRACEPARENT };
    const request = { ...about, producer: 'shop', trace: undefined, startMs: 0, enqueued: undefined };
    assert.deepEqual(spans, [
      [{ ...request, trace, enqueued }, OK],
      [request, undefined],
    ]);
  });

  it('shows its trace beside its time only where its caller records it', async () => {
    for (const [flags, isShown] of [
      ['01', true],
      ['00', false],
    ] as const) {
      const { exchange, metrics } = exchanging({ traceparent: TRACEPARENT.replace(/01$/, flags) });
      exchange.answer(OK);
      assert.equal((await exposition(metrics.registry, true)).text.includes('trace_id'), isShown);
    }
  });

  it('passes a bug on with itself, to be logged and answered', () => {
    const seen: unknown[] = [];
    const { exchange } = exchanging({}, { bug: (...given) => void seen.push(given) });
    const cause = new Error('a bug');
    exchange.bug(cause);
    assert.deepEqual(seen, [[exchange, cause]]);
  });

  it('has the trace that came with it, where that is one, and the id of the caller', () => {
    assert.equal(exchanging({ traceparent: TRACEPARENT }).exchange.trace?.traceparent, TRACEPARENT);
    assert.equal(exchanging({ traceparent: 'none' }).exchange.trace, undefined);
    assert.equal(exchanging().exchange.trace, undefined);
    assert.equal(exchanging().exchange.requestId, 'mine');
    assert.equal(exchanging().exchange.producer, 'shop');
  });
});

describe('a head that could not be read', () => {
  it('counts without a route, and its answer says what was wrong', () => {
    const { context, metrics, clock, exchange } = exchanging();
    const meter = new RouteMeter(metrics, NO_ROUTE, clock);
    const answer = headFault(context, meter, 'headersTooLarge', 'mine', exchange.connection);
    assert.deepEqual(answer, problem('headersTooLarge', FAULTS.headersTooLarge.detail));
    assert.equal(metrics.requests.counter({ method: 'none', route: 'none', status: 431 }).value, 1);
    assert.equal(metrics.errors.counter({ code: 'HEADERS_TOO_LARGE' }).value, 1);
  });
});
