// Divides deliveries into events to land and entries to quarantine.
//
// A reason has the form `<code>: <message>`. The code is also a label of a metric. The producer can read the message
// (`GET /events/{id}`), so the message never contains an error message from the warehouse.
import { erasedBody, namesIn } from '../ingest/erased.ts';
import { isEventId, parseEvent } from '../ingest/event.ts';
import type { Delivery, EventNotes } from '../ingest/queue.ts';
import { traceContext, type TraceContext } from '../ingest/trace-context.ts';
import { quarantineRowName, type LandingEvent, type QuarantinedEntry } from '../ingest/warehouse.ts';

export const QUARANTINE_REASONS = [
  'invalid_event',
  'invalid_entry',
  'id_conflict',
  'id_reused',
  'refused_by_warehouse',
  'schema',
] as const;
export type QuarantineReason = (typeof QUARANTINE_REASONS)[number];

/** The position of an entry (see Delivery), its `tracestate`, and when its read began, by the monotonic clock. */
type Place = Pick<Delivery, 'source' | 'entry' | 'replayOf' | 'servers'> &
  Partial<Pick<TraceContext, 'tracestate'>> & { readonly readMs: number };

export type EnteredEvent = LandingEvent & Place;

/** An entry to quarantine, with the code of its reason. */
export type Rejection = QuarantinedEntry & Place & { readonly code: QuarantineReason };

export type Entered = EnteredEvent | Rejection;

export const isRejection = (one: Entered): one is Rejection => 'code' in one;

/** Returns the name of the quarantine row. A replayed entry that is refused again keeps its row. */
export const quarantineName = (one: Entered): string => one.replayOf ?? quarantineRowName(one);

/** Returns the entry with an erased body, which contains only id and type. */
export const withoutBody = <T extends Entered>(one: T): T => {
  const type = isRejection(one) ? namesIn(one.body).type : one.type;
  return { ...one, body: Buffer.from(erasedBody(one.id ?? '', type)) };
};

/** Checks each delivery as the gateway does. */
export const classify = (deliveries: readonly Delivery[], readMs: number): Entered[] =>
  deliveries.map((delivery) => judged(delivery, readMs));

function judged(delivery: Delivery, readMs: number): Entered {
  const { producer, body, notes } = delivery;
  if (body === undefined) return rejection(delivery, readMs, 'invalid_entry', 'the entry has no body');
  if (producer === undefined) return rejection(delivery, readMs, 'invalid_entry', 'the entry names no producer');
  if (notes.id !== undefined && !isEventId(notes.id))
    return rejection(delivery, readMs, 'invalid_entry', 'the entry names an invalid id');
  const event = parseEvent(body);
  if (!event.valid) {
    const details = event.errors.filter(({ path }) => path !== '').map(({ path, message }) => `${path} ${message}`);
    return rejection(delivery, readMs, 'invalid_event', details.length > 1 ? details.join('; ') : event.detail);
  }
  return { ...placeOf(delivery, readMs), id: notes.id ?? event.id, type: event.type, producer, body };
}

export function rejected(event: EnteredEvent, code: QuarantineReason, words: string): Rejection {
  const { type: _, ...rest } = event;
  return { ...rest, code, reason: `${code}: ${words}` };
}

function rejection(delivery: Delivery, readMs: number, code: QuarantineReason, words: string): Rejection {
  const { producer = '', body = Buffer.alloc(0), notes } = delivery;
  // With the id in an invalid body, the producer can look up the event.
  const id = [notes.id, namesIn(body).id].find(isEventId);
  const rest = { ...placeOf(delivery, readMs), producer, body, code, reason: `${code}: ${words}` };
  return id === undefined ? rest : { ...rest, id };
}

const placeOf = ({ producer: _, body: _body, notes, ...place }: Delivery, readMs: number) => ({
  ...place,
  readMs,
  ...traceOf(notes),
});

/** Other programs can write to the queue, so an invalid trace context is dropped. */
const traceOf = ({ traceparent, tracestate }: EventNotes): Partial<TraceContext> =>
  traceparent === undefined ? NO_TRACE : (traceContext(traceparent, tracestate) ?? NO_TRACE);

const NO_TRACE: Partial<TraceContext> = {};
