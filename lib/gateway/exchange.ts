// One request and its answer. It is settled exactly once: with an answer, or as aborted by the client.
//
// Invariant: settling counts it in the same step, so that at any moment requests = accepted + duplicate + refused by
// code + aborted (+ the other answers, of look-ups and process endpoints). Who holds something for it learns once
// that it is over, whatever ended it.
import { problem, type Refusal } from '../ingest/errors.ts';
import { isSampled, traceContext, type TraceContext } from '../ingest/trace-context.ts';
import type { Connection } from '../http/connection.ts';
import { FAULTS, type HttpRequest, type ProtocolFault, type RequestListener } from '../http/request.ts';
import { requestIdFrom } from '../http/respond.ts';
import { type GatewayAnswer } from './answers.ts';
import type { ClientContext } from '../identity/authority.ts';
import { producerOf } from '../identity/producer-identity.ts';
import type { ClockAndRandom } from '../process/clock.ts';
import type { Log } from '../process/log.ts';
import { NO_ROUTE, type RefusalMeter, type RouteMeter } from './request-meter.ts';
import type { GatewayMetrics } from './metrics.ts';
import type { Enqueued, RequestSpans } from './request-spans.ts';

/** The status under which a request counts that its client gave up. No answer carries it. */
const ABORTED_STATUS = 499;

/**
 * An unread rest of at most this many bytes is thrown away and the connection kept; a longer one costs the connection.
 */
const REST_BYTES_MAX = 65_536;

/** What all exchanges share. */
export interface ExchangeContext extends ClockAndRandom {
  readonly metrics: GatewayMetrics;
  readonly refusals: RefusalMeter;
  /** Undefined: no spans are made. */
  readonly spans: RequestSpans | undefined;
  /** True while the server stops: every answer ends its connection then. */
  readonly draining: () => boolean;
  /** Where accepted requests leave a line too; undefined: nowhere. */
  readonly log: Log | undefined;
  /** A bug showed while this exchange was handled: to be logged, and answered. */
  readonly bug: (exchange: Exchange, cause: unknown) => void;
}

export class Exchange implements RequestListener {
  readonly connection: Connection<ClientContext>;
  readonly request: HttpRequest;
  readonly requestId: string;
  readonly #context: ExchangeContext;
  readonly #meter: RouteMeter;
  readonly #startMs: number;
  /** Notified once when it is over, whatever ended it. */
  holder: { over(): void } | undefined;
  #fields: readonly string[] | undefined;
  #enqueued: Enqueued | undefined;
  #ended = false;

  constructor(
    context: ExchangeContext,
    connection: Connection<ClientContext>,
    request: HttpRequest,
    meter: RouteMeter,
  ) {
    this.#context = context;
    this.connection = connection;
    this.request = request;
    this.#meter = meter;
    this.#startMs = context.clock.ms();
    this.requestId = requestIdFrom(request.head.requestId, context.random);
    request.listener = this;
  }

  /** The context that came with the request. */
  get trace(): TraceContext | undefined {
    const { traceparent, tracestate } = this.request.head;
    return traceparent === undefined ? undefined : traceContext(traceparent, tracestate);
  }

  /** Undefined before the producer is judged, and where it is none. */
  get producer(): string | undefined {
    const { judged } = this.connection.context;
    return judged && producerOf(judged.verdict);
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Its answer gets these header fields, names and values by turns. */
  answerWith(fields: readonly string[]): void {
    this.#fields = fields;
  }

  /** What became of its event in the queue, for spans. */
  noteEnqueued(enqueued: Enqueued): void {
    this.#enqueued = enqueued;
  }

  /** Answers. `undefined`: the answer comes later. */
  answer(answer: GatewayAnswer | undefined): void {
    if (this.#ended || answer === undefined) return;
    this.#respond(answer, this.#restCostsConnection(answer.refusal));
  }

  /** The client is gone. */
  aborted(): void {
    if (this.#ended) return;
    this.#end(ABORTED_STATUS);
    this.#context.metrics.aborted.add();
    this.#span(undefined);
  }

  /** A bug showed while this exchange was handled. */
  bug(cause: unknown): void {
    this.#context.bug(this, cause);
  }

  fault(fault: ProtocolFault): boolean {
    if (this.#ended) return false;
    const { refusal, detail } = FAULTS[fault];
    this.#respond(problem(refusal, detail), true);
    return true;
  }

  #respond(given: GatewayAnswer, close: boolean): void {
    const answer = this.#fields === undefined ? given : withFields(given, this.#fields);
    this.#end(answer.status);
    if (answer.refusal !== undefined) {
      const { requestId, producer, trace, connection } = this;
      const { route } = this.#meter;
      const request = { requestId, producer, route, traceparent: trace?.traceparent, client: connection };
      this.#context.refusals.refused(answer.refusal, request, answer);
    } else this.#logAnswer(answer.status);
    this.#span(answer);
    // What was pipelined behind an answer that says close is dropped, so a stopping server says it in the latest
    // request's.
    this.request.respond(this.requestId, answer, close || (this.#context.draining() && this.request.latest));
  }

  #logAnswer(status: number): void {
    const { log, clock } = this.#context;
    if (log === undefined) return;
    const { requestId, producer, trace } = this;
    const { method, target } = this.request.head;
    const { address } = this.connection;
    const ms = Math.round(clock.ms() - this.#startMs);
    const traceparent = trace?.traceparent;
    log.debug({ requestId, producer, address, method, target, status, ms, traceparent }, 'request answered');
  }

  #span(answer: GatewayAnswer | undefined): void {
    const { spans } = this.#context;
    if (spans === undefined) return;
    const { requestId, producer, trace } = this;
    const enqueued = this.#enqueued;
    const { method, target } = this.request.head;
    const { address } = this.connection;
    const { route } = this.#meter;
    const startMs = this.#startMs;
    spans.ended({ method, target, route, requestId, address, producer, trace, startMs, enqueued }, answer);
  }

  #end(status: number): void {
    this.#ended = true;
    this.holder?.over();
    const { trace } = this;
    const traceparent = trace !== undefined && isSampled(trace) ? trace.traceparent : undefined;
    this.#meter.ended(this.request.head.method, status, this.#startMs, traceparent);
  }

  #restCostsConnection(refusal: Refusal | undefined): boolean {
    return refusal !== undefined && this.request.restMayExceed(refusal === 'eventTooLarge' ? 0 : REST_BYTES_MAX);
  }
}

const withFields = (answer: GatewayAnswer, fields: readonly string[]): GatewayAnswer => ({
  ...answer,
  headers: [...(answer.headers ?? []), ...fields],
});

/** Counts a request that had no exchange, because its head could not be read, and gives the answer to it. */
export function headFault(
  context: ExchangeContext,
  meter: RouteMeter,
  fault: ProtocolFault,
  requestId: string,
  client: Connection<ClientContext>,
): GatewayAnswer {
  const { refusal, detail } = FAULTS[fault];
  const answer = problem(refusal, detail);
  meter.ended(NO_ROUTE, answer.status, context.clock.ms());
  context.refusals.refused(refusal, { requestId, producer: undefined, route: meter.route, client }, answer);
  return answer;
}
