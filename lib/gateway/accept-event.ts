// POST /events: from the head of a request to its 202. This is the hot path.
//
// Steps, each of which may end it: authority (401, 403) → media type (415) → announced size (413) → admission (503) →
// body (413, 408, 400) → envelope (400) → queue (202, 409, 503). The producer is judged before a byte of the body is read.
//
// Invariant: what was admitted is released exactly once, whatever ends the exchange.
import type { Outcome, Queue, Submission } from '../ingest/queue.ts';
import { parseEvent } from '../ingest/event.ts';
import type { ProtocolFault } from '../http/faults.ts';
import type { BodySink } from '../http/request.ts';
import { acceptance, JSON_TYPE, problem } from './answers.ts';
import type { Admission } from './admission.ts';
import type { Authority } from '../identity/authority.ts';
import type { Exchange } from './exchange.ts';
import type { GatewayMetrics } from './metrics.ts';
import type { Verdict } from '../identity/producer-identity.ts';

export interface AcceptEventOptions {
  readonly queue: Queue;
  readonly authority: Authority;
  readonly admission: Admission;
  readonly metrics: GatewayMetrics;
  readonly bodyBytesMax: number;
  /** A bug showed while this exchange was handled: to be logged, and answered. */
  readonly bug: (exchange: Exchange, cause: unknown) => void;
}

const MEDIA_TYPE = /^application\/(?:cloudevents\+)?json(?:[ \t]*;[ \t]*charset="?utf-8"?)?[ \t]*$/i;

// Made once: under overload these are the answers that must be cheap.
const OVERLOADED = problem('queueOverloaded', 'too many events or bytes are in flight');
const UNAVAILABLE = problem('queueUnavailable', 'the queue did not take the event in time, or cannot take any now');

export function acceptEvent(options: AcceptEventOptions, exchange: Exchange): void | Promise<void> {
  const verdict = options.authority.judge(exchange.connection, exchange.request);
  if (verdict instanceof Promise) return verdict.then((known) => judged(options, exchange, known));
  judged(options, exchange, verdict);
}

function judged(options: AcceptEventOptions, exchange: Exchange, verdict: Verdict): void {
  const { request } = exchange;
  if (exchange.ended) return;
  if (request.gone) return exchange.aborted();
  if (refuseVerdict(exchange, verdict)) return;
  const mediaType = request.contentType;
  if (mediaType !== JSON_TYPE && (mediaType === undefined || !MEDIA_TYPE.test(mediaType))) {
    return exchange.refuse(
      'unsupportedMediaType',
      'application/json or application/cloudevents+json in UTF-8 is wanted',
    );
  }
  if (request.contentEncoding !== undefined) {
    return exchange.refuse('unsupportedMediaType', 'a body without Content-Encoding is wanted');
  }
  const announced = request.contentLength ?? 0;
  if (announced > options.bodyBytesMax) return exchange.refuse('eventTooLarge', tooLarge(options));
  if (!options.admission.admit(verdict.producer, announced)) {
    return exchange.refuseWith('queueOverloaded', OVERLOADED);
  }
  const accepting = new Accepting(options, exchange, verdict.producer, announced);
  // A verdict may come later than those on the requests behind it.
  if (exchange.connection.exchange === exchange) exchange.connection.exchange = accepting;
  request.continue();
  request.readBody(options.bodyBytesMax, accepting);
}

/** Answers a verdict that is no producer. True when it did. */
export function refuseVerdict(
  exchange: Exchange,
  verdict: Verdict,
): verdict is Exclude<Verdict, { readonly kind: 'producer' }> {
  switch (verdict.kind) {
    case 'producer':
      return false;
    case 'unknown':
      exchange.refuse('internal', verdict.detail);
      return true;
    case 'unauthenticated':
    case 'audienceMissing':
      exchange.refuse(verdict.kind, verdict.detail);
      return true;
  }
}

const tooLarge = (options: AcceptEventOptions): string => `the body is over the limit of ${options.bodyBytesMax} bytes`;

/** One event from admission to answer. One object serves the body reader and the queue. */
class Accepting implements BodySink, Submission {
  id = '';
  text = '';
  readonly producer: string;
  readonly #options: AcceptEventOptions;
  readonly #exchange: Exchange;
  #bytes: number;
  #released = false;

  constructor(options: AcceptEventOptions, exchange: Exchange, producer: string, bytes: number) {
    this.#options = options;
    this.#exchange = exchange;
    this.producer = producer;
    this.#bytes = bytes;
  }

  bodyRead(body: Buffer): void {
    try {
      this.#judge(body);
    } catch (cause) {
      this.#release();
      this.#options.bug(this.#exchange, cause);
    }
  }

  #judge(body: Buffer): void {
    const event = parseEvent(body);
    if (!event.valid) {
      this.#release();
      this.#exchange.refuse('invalidEvent', event.detail, event.errors);
      return;
    }
    this.id = event.id;
    this.text = event.text;
    this.#options.queue.submit(this);
  }

  settle(outcome: Outcome): void {
    this.#release();
    if (this.#exchange.ended) return;
    const { metrics } = this.#options;
    switch (outcome) {
      case 'accepted':
        metrics.accepted.add();
        return this.#exchange.write(202, JSON_TYPE, acceptance(this.id, false));
      case 'duplicate':
        metrics.duplicates.add();
        return this.#exchange.write(202, JSON_TYPE, acceptance(this.id, true));
      case 'differing':
        metrics.duplicates.add();
        metrics.differing.add();
        return this.#exchange.write(202, JSON_TYPE, acceptance(this.id, true, true));
      case 'conflict':
        return this.#exchange.refuse('eventIdConflict', "the id is that of another producer's event");
      case 'unavailable':
      case 'shed':
        return this.#exchange.refuseWith('queueUnavailable', UNAVAILABLE);
    }
  }

  bodyGrows(bytes: number): void {
    if (this.#options.admission.grow(this.producer, bytes)) {
      this.#bytes += bytes;
      return;
    }
    this.#exchange.request.abandonBody();
    this.#release();
    this.#exchange.refuseWith('queueOverloaded', OVERLOADED);
  }

  bodyTooLarge(): void {
    this.#release();
    this.#exchange.refuse('eventTooLarge', tooLarge(this.#options));
  }

  bodyAborted(): void {
    this.#release();
    this.#exchange.aborted();
  }

  bodyFault(fault: ProtocolFault): boolean {
    if (this.#exchange.ended) return false;
    this.#exchange.request.abandonBody();
    this.#release();
    return this.#exchange.bodyFault(fault);
  }

  #release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#options.admission.release(this.producer, this.#bytes);
  }
}
