// `POST /events`, from the head of a request to its answer. This is the hot path.
//
// Each step may answer the request: authority (401, 403), quota (403, 429), media type and coding (415), announced
// size (413), admission (503), body (413, 408, 400), envelope (400), type (403), queue (202, 202 shed, 409, 503). The
// producer is checked before the body is read.
import { problem } from '../ingest/errors.ts';
import { isErased } from '../ingest/erased.ts';
import { parseEvent, type InvalidEvent } from '../ingest/event.ts';
import type { EventNotes, Outcome, Queue, Submission } from '../ingest/queue.ts';
import type { TraceContext } from '../ingest/trace-context.ts';
import { JSON_TYPE, type Answering, type GatewayAnswer } from './answers.ts';
import type { Admission } from './admission.ts';
import { codedBytesMax, contentCoding, decoded, decodedBytesMax, type ContentCoding } from './content-coding.ts';
import { eventForm, type CloudEventReader, type EventId, type ReadEvent } from './event-form.ts';
import { faultAnswer, type Exchange } from './exchange.ts';
import type { GatewayMetrics } from './metrics.ts';
import type { ProducerChecks } from './producer-checks.ts';
import type { ProducerTurns } from './producer-slots.ts';
import type { RequestSpans } from './request-spans.ts';
import type { Verdict } from '../identity/producer-identity.ts';
import type { Clock } from '../process/clock.ts';

export interface AcceptEventOptions {
  readonly clock: Clock;
  readonly queue: Queue;
  readonly checks: ProducerChecks;
  readonly admission: Admission;
  readonly decoding: ProducerTurns;
  readonly metrics: GatewayMetrics;
  readonly events: { readonly bodyBytesMax: number; readonly eventId: EventId };
  /** `undefined` disables spans. */
  readonly spans: RequestSpans | undefined;
}

// Made once, because these answers must be cheap under overload.
const OVERLOADED = problem('queueOverloaded', 'too many events or bytes are in flight');
const DECODING_OVERLOADED = problem('queueOverloaded', 'too many compressed bodies wait to be decoded');
const UNAVAILABLE = problem('queueUnavailable', 'the queue did not take the event in time, or cannot take any now');
const UNSUPPORTED_CODING = problem('unsupportedMediaType', 'expected no Content-Encoding, or one of gzip and zstd', {
  headers: ['Accept-Encoding', 'gzip, zstd'],
});
const BROKEN = problem(
  'invalidCompression',
  'the body is not one whole stream of the coding in Content-Encoding, or its zstd window is over 8 MiB',
);
const TOO_LONG = problem('eventTooLarge', 'the body is longer than the queue takes (a limit of Redis)');
const RATIO_TOO_HIGH = problem('eventTooLarge', 'the decoded body is over 64 KiB and over 100 times its coded length');
const CONFLICT = problem(
  'eventIdConflict',
  "another producer's event has this id: ids are shared by all producers, so begin yours with your name, " +
    'such as shop-order-1042',
);

// An event that looks like an erased one would be treated as erased and would skip schema validation.
const ERASED: InvalidEvent = {
  valid: false,
  detail: 'the event has the form of one that an operator erased',
  errors: [{ path: '/erased', message: 'is reserved in an event without other members than id and type' }],
};

const tooLarge = (bodyBytesMax: number): GatewayAnswer =>
  problem('eventTooLarge', `the body is over the limit of ${bodyBytesMax} bytes`);

export function acceptEvent(options: AcceptEventOptions, exchange: Exchange): Answering {
  const { connection, request } = exchange;
  const verdict = options.checks.authority.judge(connection, request.head.authorization);
  if (verdict instanceof Promise) return verdict.then((result) => accept(options, exchange, result));
  return accept(options, exchange, verdict);
}

function accept(options: AcceptEventOptions, exchange: Exchange, verdict: Verdict): Answering {
  const { request } = exchange;
  const { head } = request;
  const { quotas, refusal } = options.checks;
  const { bodyBytesMax } = options.events;
  if (exchange.connection.isGone) exchange.aborted();
  if (exchange.ended) return 'taken';
  if (verdict.kind !== 'producer') return refusal(verdict, head.authorization);
  const { producer } = verdict;
  const over = quotas.refusal(producer, exchange);
  if (over !== undefined) return over;
  const isJson = head.contentType === JSON_TYPE && head.cloudEventFields === undefined;
  const form = isJson ? 'json' : eventForm(head, options.events);
  if (typeof form === 'object') return form;
  const coding = head.contentEncoding === undefined ? undefined : contentCoding(head.contentEncoding);
  if (coding === 'unsupported') return UNSUPPORTED_CODING;
  const bytesMax = coding === undefined ? bodyBytesMax : codedBytesMax(bodyBytesMax);
  const announced = head.contentLength ?? 0;
  if (announced > bytesMax) return tooLarge(bodyBytesMax);
  // The decoded length is unknown, so the maximum is reserved.
  const reserved = coding === undefined ? announced : decodedBytesMax(head.contentLength ?? bytesMax, bodyBytesMax);
  const admitted = options.admission.admit(producer, Math.max(announced, reserved));
  if (admitted === undefined) return OVERLOADED;
  exchange.admitted = admitted;
  const { body } = request;
  if (body === undefined) return receive(options, exchange, producer, form, coding, bytesMax);
  request.body = undefined;
  return submit(options, exchange, producer, form, body);
}

type EventForm = 'json' | CloudEventReader;

/** Receives a body that has not arrived or is not decoded yet. */
async function receive(
  options: AcceptEventOptions,
  exchange: Exchange,
  producer: string,
  form: EventForm,
  coding: ContentCoding | undefined,
  bytesMax: number,
): Promise<GatewayAnswer | 'taken'> {
  const { admission, decoding, checks } = options;
  const { bodyBytesMax } = options.events;
  const body = await exchange.request.receive(bytesMax, (bytes) => {
    const { admitted, ended } = exchange;
    // The maximum length of a coded body was reserved at the start.
    if (coding !== undefined || ended || admitted === undefined) return;
    if (!admission.grow(admitted, bytes)) exchange.answer(OVERLOADED);
  });
  if (body === undefined) exchange.aborted();
  if (body === undefined || exchange.ended) return 'taken';
  if (body === 'too large') return tooLarge(bodyBytesMax);
  if (typeof body === 'string') return faultAnswer(body);
  if (coding === undefined) return submit(options, exchange, producer, form, body);
  const isNeeded = (): boolean => {
    if (exchange.connection.isGone) exchange.aborted();
    return !exchange.ended;
  };
  const decodedMax = decodedBytesMax(body.length, bodyBytesMax);
  const whole = await decoding.run(producer, async () => isNeeded() && decoded(coding, body, decodedMax));
  if (whole === false || !isNeeded()) return 'taken';
  if (whole === 'late') return DECODING_OVERLOADED;
  if (whole === 'broken') return BROKEN;
  if (whole === 'too large') return decodedMax < bodyBytesMax ? RATIO_TOO_HIGH : tooLarge(bodyBytesMax);
  checks.quotas.chargeExpansion(producer, whole.length - body.length, exchange);
  return submit(options, exchange, producer, form, whole);
}

function readJson(body: Buffer): ReadEvent | InvalidEvent {
  const event = parseEvent(body);
  return event.valid && isErased(event.body) ? ERASED : event;
}

function submit(
  options: AcceptEventOptions,
  exchange: Exchange,
  producer: string,
  form: EventForm,
  body: Buffer,
): GatewayAnswer | 'taken' {
  const event = form === 'json' ? readJson(body) : form(body);
  if (event === 'too large') return tooLarge(options.events.bodyBytesMax);
  if (!event.valid) return problem('invalidEvent', event.detail, event);
  const forbidden = options.checks.quotas.typeRefusal(producer, event.type);
  if (forbidden !== undefined) return forbidden;
  options.queue.submit(new EventSubmission(options, exchange, producer, event));
  return 'taken';
}

/** An event in the queue's hands. One object for each event, because this is the hot path. */
class EventSubmission implements Submission {
  readonly id: string;
  readonly producer: string;
  readonly body: Buffer;
  readonly notes: EventNotes | undefined;
  readonly #options: AcceptEventOptions;
  readonly #exchange: Exchange;

  constructor(options: AcceptEventOptions, exchange: Exchange, producer: string, event: ReadEvent) {
    const { spans, clock } = options;
    const { id, body } = event;
    this.#options = options;
    this.#exchange = exchange;
    const context = spans?.sending(exchange.trace);
    if (spans !== undefined) exchange.enqueued = { id, bytes: body.length, startMs: clock.ms(), endMs: 0, context };
    this.id = id;
    this.producer = producer;
    this.body = body;
    this.notes = notesOf(event.notes, context ?? exchange.trace);
  }

  settle(outcome: Outcome): void {
    const exchange = this.#exchange;
    if (exchange.ended) return;
    const { clock, metrics } = this.#options;
    if (exchange.enqueued !== undefined) exchange.enqueued.endMs = clock.ms();
    exchange.answer(answerTo(metrics, this.id, outcome));
  }
}

function notesOf(own: EventNotes | undefined, trace: TraceContext | undefined): EventNotes | undefined {
  return own === undefined ? trace : { ...own, ...trace };
}

function answerTo(metrics: GatewayMetrics, id: string, outcome: Outcome): GatewayAnswer {
  switch (outcome) {
    case 'accepted':
      metrics.accepted.add();
      return acceptance(id, ACCEPTED);
    case 'duplicate':
      metrics.duplicates.add();
      return acceptance(id, DUPLICATE);
    case 'differing':
      metrics.duplicates.add();
      metrics.differing.add();
      return acceptance(id, DIFFERING);
    case 'conflict':
      return CONFLICT;
    case 'too large':
      return TOO_LONG;
    case 'shed':
      metrics.shed.add();
      return { ...acceptance(id, SHED), headers: SHED_HEADERS };
    case 'unavailable':
      return UNAVAILABLE;
  }
}

// The rest of the bodies after the id.
const ACCEPTED = '","status":"accepted"}';
const DUPLICATE = '","status":"accepted","duplicate":true}';
const DIFFERING = '","status":"accepted","duplicate":true,"differs":true}';
/** RFC 014: the event was not queued in time, so the producer should send it again. */
const SHED = '","status":"shed","code":"INGEST_SHED","retryable":true}';
const SHED_HEADERS = ['Retry-After', '1'];

// Fact: JSON.stringify takes 70 ns. Choice: it is called only for the few ids that need escapes.
function acceptance(id: string, rest: string): GatewayAnswer {
  const escaped = id.includes('"') || id.includes('\\') ? JSON.stringify(id).slice(1, -1) : id;
  return { status: 202, contentType: JSON_TYPE, body: `{"id":"${escaped}${rest}` };
}
