// POST /events: from the head of a request to its 202. This is the hot path.
//
// Steps, each of which may end it: authority (401, 403) → quota (403, 429) → media type and coding (415) → announced
// size (413) → admission (503) → body (413, 408, 400) → envelope (400) → type (403) → queue (202, 202 shed, 409, 503).
// The producer is judged before a byte of the body is read.
//
// Invariant: what was admitted is released exactly once, whatever ends the exchange.
import { problem } from '../ingest/errors.ts';
import type { TraceContext } from '../ingest/trace-context.ts';
import type { EventNotes, Outcome, Queue, Submission } from '../ingest/queue.ts';
import { CONNECTIONS_SHORT, JSON_TYPE, refusalOf, type Challenge, type GatewayAnswer } from './answers.ts';
import type { Admission } from './admission.ts';
import type { BodyTaker } from '../http/request.ts';
import type { Authority } from '../identity/authority.ts';
import { codedBytesMax, contentCoding, decodeBody, type ContentCoding, type Decoded } from './content-coding.ts';
import { eventReader, type EventId, type EventReader } from './event-reader.ts';
import type { Exchange } from './exchange.ts';
import type { GatewayMetrics } from './metrics.ts';
import type { Quotas } from './quotas.ts';
import type { RequestSpans } from './request-spans.ts';
import type { Verdict } from '../identity/producer-identity.ts';
import type { Clock } from '../process/clock.ts';

export interface AcceptEventOptions {
  readonly clock: Clock;
  readonly queue: Queue;
  readonly authority: Authority;
  readonly admission: Admission;
  readonly metrics: GatewayMetrics;
  /** Undefined: no producer is limited. */
  readonly quotas: Quotas | undefined;
  readonly bodyBytesMax: number;
  readonly eventId: EventId;
  readonly challenge: Challenge;
  /** Undefined: none are made. */
  readonly spans: RequestSpans | undefined;
}

// Made once: under overload these are the answers that must be cheap.
const NO_CONNECTION = problem('queueOverloaded', CONNECTIONS_SHORT);
const OVERLOADED = problem('queueOverloaded', 'too many events or bytes are in flight');
const UNAVAILABLE = problem('queueUnavailable', 'the queue did not take the event in time, or cannot take any now');
const UNSUPPORTED_CODING = problem('unsupportedMediaType', 'expected no Content-Encoding, or one of gzip and zstd', {
  headers: ['Accept-Encoding', 'gzip, zstd'],
});
const BROKEN = problem(
  'invalidCompression',
  'the body is not one whole stream of the coding in Content-Encoding, or its zstd window is over 8 MiB',
);
const CONFLICT = problem(
  'eventIdConflict',
  "another producer's event has this id: ids are shared by all producers, so begin yours with your name, " +
    'such as shop/1042',
);

/** Undefined: the exchange is settled later. */
export function acceptEvent(
  options: AcceptEventOptions,
  exchange: Exchange,
): GatewayAnswer | undefined | Promise<GatewayAnswer | undefined> {
  const verdict = options.authority.judge(exchange.connection, exchange.request.head.authorization);
  if (verdict instanceof Promise) return verdict.then((known) => accept(options, exchange, known));
  return accept(options, exchange, verdict);
}

function accept(options: AcceptEventOptions, exchange: Exchange, verdict: Verdict): GatewayAnswer | undefined {
  const { request } = exchange;
  const { head } = request;
  if (exchange.ended) return undefined;
  if (request.gone) {
    exchange.aborted();
    return undefined;
  }
  if (verdict.kind !== 'producer') return refusalOf(verdict, options.challenge, head.authorization);
  const { connection } = exchange;
  if (connection.holder === '' && !connection.know(verdict.producer)) return NO_CONNECTION;
  const over = options.quotas?.refusal(verdict.producer, exchange);
  if (over !== undefined) return over;
  const read = eventReader(head, options.eventId);
  if (typeof read !== 'function') return read;
  const coding = head.contentEncoding === undefined ? undefined : contentCoding(head.contentEncoding);
  if (coding === 'unsupported') return UNSUPPORTED_CODING;
  const bytesMax = coding === undefined ? options.bodyBytesMax : codedBytesMax(options.bodyBytesMax);
  const announced = head.contentLength ?? 0;
  if (announced > bytesMax) return tooLarge(options);
  if (!options.admission.admit(verdict.producer, announced)) return OVERLOADED;
  request.body(bytesMax, new Acceptance(options, exchange, verdict.producer, announced, read, coding));
  return undefined;
}

const tooLarge = ({ bodyBytesMax }: AcceptEventOptions): GatewayAnswer =>
  problem('eventTooLarge', `the body is over the limit of ${bodyBytesMax} bytes`);

/** An event that was admitted, until its exchange is over. One object serves the exchange and the queue. */
class Acceptance implements BodyTaker, Submission {
  readonly producer: string;
  readonly #options: AcceptEventOptions;
  readonly #exchange: Exchange;
  readonly #read: EventReader;
  /** Of the body that is still to be given; undefined: it comes as it is. */
  #coding: ContentCoding | undefined;
  #admittedBytes: number;
  #id = '';
  #text = '';
  #notes: EventNotes | undefined;
  /** By `Clock.ms()`. */
  #submittedMs: number | undefined;
  #sending: TraceContext | undefined;

  constructor(
    options: AcceptEventOptions,
    exchange: Exchange,
    producer: string,
    announcedBytes: number,
    read: EventReader,
    coding: ContentCoding | undefined,
  ) {
    this.#options = options;
    this.#exchange = exchange;
    this.producer = producer;
    this.#admittedBytes = announcedBytes;
    this.#read = read;
    this.#coding = coding;
    exchange.holder = this;
  }

  get id(): string {
    return this.#id;
  }

  get text(): string {
    return this.#text;
  }

  get notes(): EventNotes | undefined {
    return this.#notes;
  }

  bodyRead(body: Decoded): void {
    try {
      this.#exchange.answer(this.#submit(body));
    } catch (cause) {
      this.#exchange.bug(cause);
    }
  }

  #submit(body: Decoded): GatewayAnswer | undefined {
    if (this.#exchange.ended) return undefined;
    if (body === 'too large') return tooLarge(this.#options);
    if (body === 'broken') return BROKEN;
    if (this.#coding !== undefined) {
      decodeBody(this.#coding, body, this.#options.bodyBytesMax, (decoded) => this.#decoded(decoded));
      return undefined;
    }
    const event = this.#read(body);
    if (!event.valid) return problem('invalidEvent', event.detail, event);
    const forbidden = this.#options.quotas?.typeRefusal(this.producer, event.type);
    if (forbidden !== undefined) return forbidden;
    this.#id = event.id;
    this.#text = event.text;
    const { trace } = this.#exchange;
    const { spans, clock } = this.#options;
    if (spans !== undefined) {
      this.#sending = spans.sending(trace);
      this.#submittedMs = clock.ms();
    }
    this.#notes = notesOf(event.notes, this.#sending ?? trace);
    this.#options.queue.submit(this);
    return undefined;
  }

  settle(outcome: Outcome): void {
    if (this.#exchange.ended) return;
    if (this.#submittedMs !== undefined) this.#noteEnqueued(this.#submittedMs);
    this.#exchange.answer(this.#answerTo(outcome));
  }

  bodyGrows(bytes: number): void {
    if (this.#exchange.ended) return;
    if (this.#options.admission.grow(this.producer, bytes)) this.#admittedBytes += bytes;
    else this.#exchange.answer(OVERLOADED);
  }

  over(): void {
    this.#options.admission.release(this.producer, this.#admittedBytes);
  }

  #decoded(decoded: Decoded): void {
    this.#coding = undefined;
    if (typeof decoded !== 'string') {
      const more = decoded.length - this.#admittedBytes;
      if (more > 0) this.bodyGrows(more);
    }
    this.bodyRead(decoded);
  }

  #noteEnqueued(startMs: number): void {
    const bytes = Buffer.byteLength(this.#text);
    const endMs = this.#options.clock.ms();
    this.#exchange.noteEnqueued({ id: this.#id, bytes, startMs, endMs, context: this.#sending });
  }

  #answerTo(outcome: Outcome): GatewayAnswer {
    const { metrics } = this.#options;
    switch (outcome) {
      case 'accepted':
        metrics.accepted.add();
        return acceptance(this.#id, '');
      case 'duplicate':
        metrics.duplicates.add();
        return acceptance(this.#id, ',"duplicate":true');
      case 'differing':
        metrics.duplicates.add();
        metrics.differing.add();
        return acceptance(this.#id, ',"duplicate":true,"differs":true');
      case 'conflict':
        return CONFLICT;
      case 'shed':
        metrics.shed.add();
        return shed(this.#id);
      case 'unavailable':
        return UNAVAILABLE;
    }
  }
}

/** What is kept with an event in addition to its text; most events have nothing. */
function notesOf(own: EventNotes | undefined, trace: TraceContext | undefined): EventNotes | undefined {
  return own === undefined ? trace : { ...own, ...trace };
}

/**
 * The acceptance response (specification, "Acceptance response"); `more`: members that say what was known of the id
 * before.
 */
const acceptance = (id: string, more: string): GatewayAnswer => ({
  status: 202,
  contentType: JSON_TYPE,
  body: `{"id":${JSON.stringify(id)},"status":"accepted"${more}}`,
});

const SHED_HEADERS = ['Retry-After', '1'];

/** The proposed answer of RFC 014: the event is not kept, and the producer sends it again. */
const shed = (id: string): GatewayAnswer => ({
  status: 202,
  contentType: JSON_TYPE,
  headers: SHED_HEADERS,
  body: `{"id":${JSON.stringify(id)},"status":"shed","code":"INGEST_SHED","retryable":true}`,
});
