// One request and its answer. An exchange ends exactly once: with an answer, or when the client closes the
// connection.
//
// Invariant: when an exchange ends, the request is counted and its admission is released in one step. So at any
// moment, requests = accepted + duplicate + shed + refused by code + aborted (+ answers to lookups and process
// endpoints).
import { CATALOGUE, problem } from '../ingest/errors.ts';
import { traceContext, type TraceContext } from '../ingest/trace-context.ts';
import type { Connection } from '../http/connection.ts';
import { FAULTS, type HttpRequest, type ProtocolFault } from '../http/request.ts';
import { requestIdFrom } from '../http/respond.ts';
import type { Admission, Admitted } from './admission.ts';
import type { Answering, GatewayAnswer } from './answers.ts';
import type { ClientContext } from '../identity/authority.ts';
import { producerOf } from '../identity/producer-identity.ts';
import type { ClockAndRandom } from '../process/clock.ts';
import type { Log } from '../process/log.ts';
import { clientFields } from './refusal-log.ts';
import { NO_ROUTE, type RefusalMeter, type RouteMeter } from './request-meter.ts';

/** Status in metrics of a request that the client aborted. */
const ABORTED_STATUS = 499;

const SHOWN_ID_MAX = 256;

/** An event sent to the queue. Times are from `Clock.ms()`. */
export interface Enqueued {
  readonly id: string;
  readonly bytes: number;
  readonly startMs: number;
  /** When the queue answered; 0 before. */
  endMs: number;
  /** The trace context that is stored with the event, if a span was reserved for it. */
  readonly context: TraceContext | undefined;
}

export interface ExchangeContext extends ClockAndRandom {
  readonly admission: Admission;
  readonly refusals: RefusalMeter;
  /** `undefined` disables spans. */
  readonly spans: { ended(exchange: Exchange, answer: GatewayAnswer | undefined): void } | undefined;
  /** Number of exchanges that have not ended. */
  open: number;
  readonly log: Log;
  readonly logsAnswers: boolean;
}

export class Exchange {
  readonly connection: Connection<ClientContext>;
  readonly request: HttpRequest;
  readonly requestId: string;
  /** When the end of the head arrived, from `Clock.ms()`. */
  readonly startMs: number;
  admitted: Admitted | undefined;
  enqueued: Enqueued | undefined;
  /** Further header fields of the answer: alternating names and values. */
  fields: readonly string[] | undefined;
  readonly #context: ExchangeContext;
  readonly #meter: RouteMeter;
  #trace: TraceContext | undefined;
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
    this.startMs = connection.readMs;
    this.requestId = requestIdFrom(request.head.requestId, context.random);
    context.open += 1;
  }

  /** The request id for logs and spans: cut, and with escapes for all but visible ASCII and spaces. */
  get shownRequestId(): string {
    return this.requestId
      .slice(0, SHOWN_ID_MAX)
      .replaceAll(/[^\x20-\x7e]/g, (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`);
  }

  get trace(): TraceContext | undefined {
    const { traceparent, tracestate } = this.request.head;
    if (traceparent !== undefined) this.#trace ??= traceContext(traceparent, tracestate);
    return this.#trace;
  }

  /** `undefined` before the verdict, and if the certificate is not trusted. Set for a producer without the audience. */
  get producer(): string | undefined {
    const { latest } = this.connection.context;
    return latest && producerOf(latest.verdict);
  }

  get route(): string {
    return this.#meter.route;
  }

  get ended(): boolean {
    return this.#ended;
  }

  answer(answer: Answering): void {
    if (answer instanceof Promise)
      answer.then((later) => this.answer(later)).catch((cause: unknown) => this.bug(cause));
    else if (answer !== 'taken' && !this.#ended) this.#respond(answer, false);
  }

  aborted(): void {
    if (this.#ended) return;
    this.#end(ABORTED_STATUS);
    this.#context.refusals.aborted();
    this.#context.spans?.ended(this, undefined);
  }

  /** Answers after a failure of the handler, and closes the connection, whose state is unknown. */
  bug(cause: unknown): void {
    const { shownRequestId: requestId, trace } = this;
    this.#context.log.error({ err: cause, requestId, traceparent: trace?.traceparent }, 'a handler failed');
    if (!this.#ended) this.#respond(problem('internal', 'the gateway failed on this request'), true);
  }

  #respond(result: GatewayAnswer, close: boolean): void {
    const { connection, request, requestId, fields } = this;
    const wanted = request.fault === undefined ? result : faultAnswer(request.fault);
    const answer = fields === undefined ? wanted : withFields(wanted, fields);
    this.#end(answer.status);
    if (answer.refusal !== undefined) this.#context.refusals.refused(answer.refusal, this.producer, connection);
    if (this.#context.logsAnswers) this.#logAnswer(answer);
    this.#context.spans?.ended(this, answer);
    request.respond(requestId, answer, close);
  }

  #logAnswer(answer: GatewayAnswer): void {
    const { log, clock } = this.#context;
    const { shownRequestId: requestId, producer, trace } = this;
    const { method, target } = this.request.head;
    const client = clientFields(this.connection, answer.status);
    const ms = Math.round(clock.ms() - this.startMs);
    const traceparent = trace?.traceparent;
    log.debug({ requestId, producer, ...client, method, target, ms, traceparent, ...resultOf(answer) }, LINE);
  }

  #end(status: number): void {
    this.#ended = true;
    this.#context.open -= 1;
    if (this.admitted !== undefined) this.#context.admission.release(this.admitted);
    this.#meter.ended(this.request.head.method, status, this.startMs);
  }
}

const LINE = 'request answered';

function resultOf({ status, refusal, body }: GatewayAnswer): object {
  if (refusal === undefined) return { status };
  const { detail } = JSON.parse(String(body)) as { readonly detail: unknown };
  return { status, code: CATALOGUE[refusal].code, detail };
}

const withFields = (answer: GatewayAnswer, fields: readonly string[]): GatewayAnswer => ({
  ...answer,
  headers: [...(answer.headers ?? []), ...fields],
});

export function faultAnswer(fault: ProtocolFault): GatewayAnswer {
  const { refusal, detail } = FAULTS[fault];
  return problem(refusal, detail);
}

/** Counts a request with an unreadable head, which has no exchange, and returns its answer. */
export function headFault(
  context: ExchangeContext,
  meter: RouteMeter,
  fault: ProtocolFault,
  requestId: string,
  client: Connection<ClientContext>,
): GatewayAnswer {
  const answer = faultAnswer(fault);
  meter.ended(NO_ROUTE, answer.status, client.readMs);
  context.refusals.refused(FAULTS[fault].refusal, undefined, client);
  if (context.logsAnswers) {
    context.log.debug({ requestId, ...clientFields(client, answer.status), ...resultOf(answer) }, LINE);
  }
  return answer;
}
