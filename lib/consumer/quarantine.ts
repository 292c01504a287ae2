// Which deliveries are events, and what becomes of the others.
//
// Invariant: a delivery is either an event to land or an entry to quarantine with a reason; none is left out. A reason
// is `<code>: <words for people>`. The code is one of QUARANTINE_REASONS (the label of a metric). The words may be read
// by the producer that sent the event (`GET /events/{id}`), so they hold nothing of the warehouse's own messages.
import { scanEnvelope } from '../ingest/envelope-scan.ts';
import { namesIn } from '../ingest/erased.ts';
import { isEventId, parseEvent } from '../ingest/event.ts';
import type { Delivery, EventNotes } from '../ingest/queue.ts';
import { traceContext, type TraceContext } from '../ingest/trace-context.ts';
import type { LandingEvent, QuarantinedEntry } from '../ingest/warehouse.ts';

export const QUARANTINE_REASONS = [
  'invalid_event',
  'invalid_entry',
  'id_conflict',
  'id_reused',
  'refused_by_warehouse',
  'schema',
] as const;
export type QuarantineReason = (typeof QUARANTINE_REASONS)[number];

/** An event with the entry that brought it: `entry` and `source` as in Delivery. */
export interface EnteredEvent extends LandingEvent {
  readonly entry: string;
  readonly source: string;
  readonly replayOf?: string;
  readonly servers?: number;
  readonly tracestate?: string | undefined;
}

/** An entry that goes to quarantine, with the code of its reason. */
export interface Rejection extends QuarantinedEntry {
  readonly source: string;
  readonly replayOf?: string;
  readonly servers?: number;
  readonly tracestate?: string | undefined;
  readonly code: QuarantineReason;
}

/** An entry's position; `replayOf` as in Delivery. */
interface Place {
  readonly source: string;
  readonly entry: string;
  readonly replayOf?: string;
}

/** An entry's name in the warehouse, which may hold entries of several queues: `<queue id>/<stream>/<entry>`. */
export const entryName = ({ source, entry }: Place): string => `${source}/${entry}`;

/**
 * The name of an entry's quarantine row, where no other event has it (ownRowName). A replayed entry that cannot land
 * again keeps the row that it came from.
 */
export const quarantineName = (place: Place): string => place.replayOf ?? entryName(place);

/** What most deliveries do not have. */
const rare = ({ replayOf, servers }: Delivery): Pick<Delivery, 'replayOf' | 'servers'> => ({
  ...(replayOf === undefined ? {} : { replayOf }),
  ...(servers === undefined ? {} : { servers }),
});

/** Deliveries by what they are. */
export interface Batch {
  readonly events: readonly EnteredEvent[];
  readonly rejections: readonly Rejection[];
  /** Of both. */
  readonly count: number;
  /** Of the bodies of both. */
  readonly bytes: number;
}

/** The schemas of event types, where there are any: schemas.ts. */
export interface TypeSchemas {
  /** The first problems of an event; undefined where its type has no schema. */
  problemsOf(type: string, body: Buffer): readonly string[] | undefined;
}

/** Events by what their schema said. */
export type SchemaCounts = Readonly<Record<'matched' | 'unmatched' | 'unschematized', { add(): void }>>;

/** Holds every delivery against the same compiled schema that the gateway uses; a plain event needs only be scanned. */
export function classify(deliveries: readonly Delivery[], schemas?: TypeSchemas, counts?: SchemaCounts): Batch {
  const events: EnteredEvent[] = [];
  const rejections: Rejection[] = [];
  let bytes = 0;
  for (const delivery of deliveries) {
    const { entry, source, producer, body, notes, acceptedAtMs } = delivery;
    if (producer === undefined || body === undefined || (notes.id !== undefined && !isEventId(notes.id))) {
      rejections.push(rejection(delivery, 'invalid_entry', entryFault(delivery)));
      continue;
    }
    bytes += body.length;
    if (delivery.oversize === true) {
      rejections.push(rejection(delivery, 'invalid_event', 'the compressed body is longer than gateways accept'));
      continue;
    }
    const found = scanEnvelope(body) ?? parseEvent(body);
    if ('errors' in found) {
      const details = found.errors.filter(({ path }) => path !== '').map(({ path, message }) => `${path} ${message}`);
      rejections.push(rejection(delivery, 'invalid_event', [found.detail, ...details].join('; ')));
      continue;
    }
    const problems = schemas?.problemsOf(found.type, body);
    if (schemas !== undefined) counts?.[problems === undefined ? 'unschematized' : resultOf(problems)].add();
    if (problems !== undefined && problems.length > 0) {
      rejections.push(rejection(delivery, 'schema', problems.join('; ')));
    } else {
      const id = notes.id ?? found.id;
      events.push({
        entry,
        source,
        id,
        type: found.type,
        producer,
        body,
        acceptedAtMs,
        ...traceOf(notes),
        ...rare(delivery),
      });
    }
  }
  return { events, rejections, count: deliveries.length, bytes };
}

const resultOf = (problems: readonly string[]): 'matched' | 'unmatched' =>
  problems.length === 0 ? 'matched' : 'unmatched';

/** An event that the warehouse would not take. */
export function rejected(event: EnteredEvent, code: QuarantineReason, words: string): Rejection {
  const { type: _, ...rest } = event;
  return { ...rest, code, reason: `${code}: ${words}` };
}

function entryFault({ body, producer }: Delivery): string {
  if (body === undefined) return 'the entry has no body';
  return producer === undefined ? 'the entry names no producer' : 'the entry names an invalid id';
}

function rejection(delivery: Delivery, code: QuarantineReason, words: string): Rejection {
  const { entry, source, producer, body, notes, acceptedAtMs } = delivery;
  const id = isEventId(notes.id) ? notes.id : body === undefined ? undefined : readableId(body);
  const rest = {
    entry,
    source,
    producer: producer ?? '',
    body: body ?? Buffer.alloc(0),
    acceptedAtMs,
    ...traceOf(notes),
    code,
    reason: `${code}: ${words}`,
    ...rare(delivery),
  };
  return id === undefined ? rest : { ...rest, id };
}

/** Entries can be put on the queue by other hands: what is no trace context is left out. */
const traceOf = ({ traceparent, tracestate }: EventNotes): Partial<TraceContext> =>
  traceparent === undefined ? NO_TRACE : (traceContext(traceparent, tracestate) ?? NO_TRACE);

const NO_TRACE: Partial<TraceContext> = {};

/** The id of a body that is not an event, where one can be read: the producer may look it up. */
function readableId(body: Buffer): string | undefined {
  const { id } = namesIn(body);
  return isEventId(id) ? id : undefined;
}
