// Which deliveries are events, and what becomes of those that are none.
//
// Invariant: a delivery is either an event to land or an entry to quarantine with a reason; none is left out. A reason
// is `<code>: <words for people>`. The code is one of QUARANTINE_REASONS (the label of a metric). The words may be read by
// the producer that sent the event (`GET /events/{id}`), so they hold nothing of the warehouse's own messages.
import { isEventId, parseEvent } from '../ingest/event.ts';
import type { Delivery } from '../ingest/queue.ts';
import type { LandingEvent, QuarantinedEntry } from '../ingest/warehouse.ts';

export const QUARANTINE_REASONS = ['invalid_event', 'invalid_entry', 'dropped_by_queue', 'id_conflict', 'refused_by_warehouse'] as const;
export type QuarantineReason = (typeof QUARANTINE_REASONS)[number];

/** An event with the entry that brought it. */
export interface EnteredEvent extends LandingEvent {
  readonly entry: string;
}

/** An entry on its way to quarantine, with the code of its reason. */
export interface Rejection extends QuarantinedEntry {
  readonly code: QuarantineReason;
}

export interface Sorted {
  readonly events: readonly EnteredEvent[];
  readonly rejections: readonly Rejection[];
}

/** Holds every delivery against the same compiled schema that the gateway uses. */
export function sorted(deliveries: readonly Delivery[]): Sorted {
  const events: EnteredEvent[] = [];
  const rejections: Rejection[] = [];
  for (const delivery of deliveries) {
    const { entry, producer, body, acceptedAtMs } = delivery;
    const fault = entryFault(delivery);
    if (fault !== undefined || producer === undefined || body === undefined) {
      const code = delivery.dropped ? 'dropped_by_queue' : 'invalid_entry';
      rejections.push(rejection(delivery, code, fault ?? 'the entry is incomplete'));
      continue;
    }
    const parsed = parseEvent(body);
    if (parsed.valid) {
      events.push({ entry, id: parsed.id, type: parsed.type, producer, body, acceptedAtMs });
    } else {
      const details = parsed.errors.filter(({ path }) => path !== '').map(({ path, message }) => `${path} ${message}`);
      rejections.push(rejection(delivery, 'invalid_event', [parsed.detail, ...details].join('; ')));
    }
  }
  return { events, rejections };
}

/** An event that the warehouse would not take. */
export function rejected(event: EnteredEvent, code: QuarantineReason, words: string): Rejection {
  const { entry, id, producer, acceptedAtMs, body } = event;
  return { entry, id, producer, acceptedAtMs, body, code, reason: `${code}: ${words}` };
}

function entryFault({ producer, body, dropped }: Delivery): string | undefined {
  if (dropped) return 'the queue dropped the entry before it could land';
  if (body === undefined) return 'the entry has no body';
  if (producer === undefined) return 'the entry names no producer';
  return undefined;
}

function rejection({ entry, producer, body, acceptedAtMs }: Delivery, code: QuarantineReason, words: string): Rejection {
  const id = body === undefined ? undefined : readableId(body);
  const rest = { entry, producer: producer ?? '', body: body ?? Buffer.alloc(0), acceptedAtMs, code, reason: `${code}: ${words}` };
  return id === undefined ? rest : { ...rest, id };
}

/** The id of a body that is no event, where one can be read: the producer may ask for it. */
function readableId(body: Buffer): string | undefined {
  try {
    const value: unknown = JSON.parse(body.toString('utf8'));
    const id = typeof value === 'object' && value !== null && 'id' in value ? value.id : undefined;
    return isEventId(id) ? id : undefined;
  } catch {
    return undefined;
  }
}
