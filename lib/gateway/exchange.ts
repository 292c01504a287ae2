// One request and its answer. Whoever handles it ends it exactly once: with an answer, a refusal, or as aborted.
//
// Invariant: ending it counts it, in the same breath, so that at any moment requests = accepted + duplicate +
// refused by code + aborted (+ the other answers, of look-ups and process endpoints).
import type { Refusal } from '../ingest/errors.ts';
import type { EventFault } from '../ingest/event.ts';
import { lingerAtEnd, type Connection, type OpenExchange } from '../http/connection.ts';
import type { ProtocolFault } from '../http/faults.ts';
import type { HttpRequest } from '../http/request.ts';
import { requestIdFrom, type Answer } from '../http/respond.ts';
import { problem } from './answers.ts';
import type { KnownProducer } from '../identity/authority.ts';
import { NO_ROUTE, type RefusalMeter, type RouteMeter } from './request-meter.ts';
import type { GatewayMetrics } from './metrics.ts';

/** The status under which a request counts that its client gave up. No answer carries it. */
export const ABORTED_STATUS = 499;

/** An unread rest of at most this many bytes is thrown away and the connection kept; a longer one costs the connection. */
const REST_BYTES_MAX = 65_536;

/** What all exchanges share. */
export interface ExchangeContext {
  readonly metrics: GatewayMetrics;
  readonly refusals: RefusalMeter;
  /** True while the server stops: every answer ends its connection then. */
  readonly draining: () => boolean;
}

const FAULTS: Readonly<Record<ProtocolFault, { readonly refusal: Refusal; readonly detail: string }>> = {
  malformed: { refusal: 'invalidEvent', detail: 'the request is not well-formed HTTP' },
  headersTooLarge: { refusal: 'headersTooLarge', detail: 'the header section is over the limit' },
  timeout: { refusal: 'requestTimeout', detail: 'the request did not arrive in time' },
  connect: { refusal: 'routeNotFound', detail: 'this is no proxy' },
  unread: { refusal: 'queueOverloaded', detail: 'too many answers wait to be read on this connection' },
};

export class Exchange implements OpenExchange {
  readonly connection: Connection<KnownProducer>;
  readonly request: HttpRequest;
  readonly requestId: string;
  readonly #context: ExchangeContext;
  readonly #meter: RouteMeter;
  readonly #startMs = performance.now();
  #ended = false;

  constructor(
    context: ExchangeContext,
    connection: Connection<KnownProducer>,
    request: HttpRequest,
    meter: RouteMeter,
  ) {
    this.#context = context;
    this.connection = connection;
    this.request = request;
    this.#meter = meter;
    this.requestId = requestIdFrom(request.givenRequestId);
    connection.exchange = this;
  }

  get ended(): boolean {
    return this.#ended;
  }

  answer(answer: Answer): void {
    this.write(answer.status, answer.contentType, answer.body, answer.headers);
  }

  /** The same as `answer`, without an object for it. */
  write(status: number, contentType: string, body: string, headers?: readonly string[]): void {
    if (this.#ended) return;
    this.#end(status);
    this.request.respond(this.requestId, status, contentType, body, this.#endsConnection(), headers);
  }

  refuse(refusal: Refusal, detail: string, errors?: readonly EventFault[], headers?: readonly string[]): void {
    this.refuseWith(refusal, problem(refusal, detail, errors, headers));
  }

  /** `answer` must be made by `problem` from the same refusal. */
  refuseWith(refusal: Refusal, answer: Answer): void {
    if (this.#ended) return;
    this.#end(answer.status);
    const producer = this.connection.owner?.identity?.producer;
    this.#context.refusals.refused(refusal, this.requestId, producer, this.#meter.route, answer);
    const close = this.#restCostsConnection(refusal);
    if (close && !this.request.complete) lingerAtEnd(this.connection.socket);
    const { status, contentType, body, headers } = answer;
    this.request.respond(this.requestId, status, contentType, body, close || this.#endsConnection(), headers);
  }

  /** The client is gone: there is nobody to answer. */
  aborted(): void {
    if (this.#ended) return;
    this.#end(ABORTED_STATUS);
    this.#context.metrics.aborted.add();
  }

  bodyFault(fault: ProtocolFault): boolean {
    if (this.#ended) return false;
    const { refusal, detail } = FAULTS[fault];
    this.refuse(refusal, detail);
    return true;
  }

  #end(status: number): void {
    this.#ended = true;
    this.#meter.ended(this.request.method, status, this.#startMs);
  }

  // What was pipelined behind an answer that says close is dropped, so the latest request's answer says it.
  #endsConnection(): boolean {
    return this.#context.draining() && this.request.latest;
  }

  #restCostsConnection(refusal: Refusal): boolean {
    if (this.request.complete) return false;
    if (this.request.expectsContinue || this.connection.broken || refusal === 'eventTooLarge') return true;
    return this.request.bodyMayExceed(REST_BYTES_MAX);
  }
}

/** Counts a request that had no exchange, because its head could not be read, and gives the answer to it. */
export function headFault(
  context: ExchangeContext,
  meter: RouteMeter,
  fault: ProtocolFault,
  requestId: string,
): Answer {
  const { refusal, detail } = FAULTS[fault];
  const answer = problem(refusal, detail);
  meter.ended(NO_ROUTE, answer.status, performance.now());
  context.refusals.refused(refusal, requestId, undefined, meter.route, answer);
  return answer;
}
