// The spans of a request: a server span, and under it a producer span for an event that was sent to the queue.
//
// Spans are recorded for refused requests, and for requests whose callers record their traces. Names and attributes
// follow OpenTelemetry's semantic conventions for HTTP and messaging.
import { CATALOGUE } from '../ingest/errors.ts';
import { isSampled, type TraceContext } from '../ingest/trace-context.ts';
import type { SpanParent, Tracing } from '../telemetry/tracing.ts';
import type { Clock } from '../process/clock.ts';
import type { GatewayAnswer } from './answers.ts';
import type { Enqueued, Exchange } from './exchange.ts';

export class RequestSpans {
  readonly #tracing: Tracing;
  readonly #clock: Clock;
  readonly #queue: { readonly system: string; readonly destination: string };

  /** `queue`: the values of `messaging.system` and `messaging.destination.name`. */
  constructor(tracing: Tracing, queue: { readonly system: string; readonly destination: string }, clock: Clock) {
    this.#clock = clock;
    this.#tracing = tracing;
    this.#queue = queue;
  }

  /** Returns the context of the producer span, which later spans refer to; `undefined` if the trace is not recorded. */
  sending(trace: TraceContext | undefined): TraceContext | undefined {
    if (trace === undefined || !isSampled(trace)) return undefined;
    return { ...trace, traceparent: this.#tracing.reserve(trace).traceparent };
  }

  /** `answer` is `undefined` if the client aborted the request. */
  ended(exchange: Exchange, answer: GatewayAnswer | undefined): void {
    const { trace, route, startMs, enqueued, producer, shownRequestId } = exchange;
    const { method, target } = exchange.request.head;
    const refusal = answer?.refusal;
    if (refusal === undefined && (trace === undefined || !isSampled(trace))) return;
    const code = refusal === undefined ? undefined : CATALOGUE[refusal].code;
    const query = target.indexOf('?');
    const endMs = this.#clock.ms();
    // Durations come from the monotonic clock.
    const originMs = this.#clock.epochMs() - endMs;
    const server = this.#tracing.record({
      name: `${method} ${route}`,
      kind: 'server',
      parent: trace,
      startMs: originMs + startMs,
      endMs: originMs + endMs,
      attributes: {
        'http.request.method': method,
        'http.route': route,
        'url.scheme': 'https',
        'url.path': query === -1 ? target : target.slice(0, query),
        'client.address': exchange.connection.address,
        'network.protocol.version': '1.1',
        'ingest.request_id': shownRequestId,
        ...(producer === undefined ? {} : { 'ingest.producer': producer }),
        ...(answer === undefined
          ? { 'error.type': 'aborted' }
          : { 'http.response.status_code': answer.status, ...(code === undefined ? {} : { 'error.type': code }) }),
      },
      // A server span is marked as failed only if the server failed, not if the client was at fault.
      error: answer !== undefined && answer.status >= 500 ? code : undefined,
    });
    if (enqueued !== undefined && enqueued.endMs > 0) this.#enqueued(enqueued, originMs, server, code);
  }

  #enqueued(
    { id, bytes, startMs, endMs, context }: Enqueued,
    originMs: number,
    parent: SpanParent,
    error: string | undefined,
  ): void {
    const { system, destination } = this.#queue;
    this.#tracing.record({
      name: `send ${destination}`,
      kind: 'producer',
      parent,
      context,
      startMs: originMs + startMs,
      endMs: originMs + endMs,
      attributes: {
        'messaging.system': system,
        'messaging.destination.name': destination,
        'messaging.operation.name': 'send',
        'messaging.operation.type': 'send',
        'messaging.message.id': id,
        'messaging.message.body.size': bytes,
        ...(error === undefined ? {} : { 'error.type': error }),
      },
      error,
    });
  }
}
