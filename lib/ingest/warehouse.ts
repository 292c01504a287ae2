// The warehouse port: one permanent row per id, and a quarantine for events that cannot have one.
//
// The primary key alone decides which of two events with the same id gets the row. SQLite and PostgreSQL both run the
// suite test/contract/warehouse.ts. Table and column names are a contract with everyone who queries the tables:
//   events(id primary key, type, producer, accepted_at, landed_at, body, traceparent)
//   events_quarantine(entry primary key, id, producer, reason, accepted_at, quarantined_at, body, traceparent)
//   ingest_audit(id primary key, at, actor, command, what, changed)
import { createHash } from 'node:crypto';
import { isErased } from './erased.ts';
import type { Delivery, FoundEvent } from './queue.ts';

/** A valid event to land. `body` is stored unchanged. Times are Unix milliseconds, 0 to TIME_MS_MAX. */
export interface LandingEvent {
  readonly id: string;
  readonly type: string;
  readonly producer: string;
  readonly body: Buffer;
  readonly acceptedAtMs: number;
  readonly traceparent?: string | undefined;
}

export type LandedBefore = Pick<LandingEvent, 'id' | 'producer' | 'body'>;

/** The last time that a JavaScript Date can hold; PostgreSQL and SQLite can store it too. */
export const TIME_MS_MAX = 8.64e15;

/**
 * The outcome for each event of a batch, in order:
 * - `duplicate`: the producer's row with the same body already exists, or one of the two bodies was erased.
 * - `reused`: the producer's row already exists, with a different body.
 * - `conflict`: the row with this id belongs to another producer, so the event cannot land.
 */
export type LandingOutcome = 'landed' | 'duplicate' | 'reused' | 'conflict';

/** The warehouse compares an event with the row of its id, so no body leaves it. */
export interface ComparedRow {
  readonly own: boolean;
  readonly same: boolean;
}

/** An erased body equals any body, because an entry may be read again while its event is being erased. */
export const repeatOutcome = (body: Buffer, { own, same }: ComparedRow): LandingOutcome =>
  !own ? 'conflict' : same || isErased(body) ? 'duplicate' : 'reused';

/** SQL for the erased body of a row. `id` is a parameter that holds a JSON string. A type needs no escaping. */
export const erasedBodySql = (id: string, type: string): string =>
  `'{"id":' || ${id} || ',"type":"' || ${type} || '","erased":true}'`;

/** An entry that cannot land. `id` is unset if it could not be read. */
export interface QuarantinedEntry extends Omit<LandingEvent, 'id' | 'type'> {
  readonly entry: string;
  readonly id?: string;
  readonly reason: string;
}

export interface QuarantinedEvent extends Pick<Delivery, 'source' | 'entry' | 'producer'> {
  readonly id?: string | undefined;
  readonly body: Buffer;
}

const ROW_DIGEST_CHARACTERS = 16;

/**
 * After a failover, a server that lacks the last writes may give the names of their entries to other events, so the
 * name of a quarantine row includes a digest of the event. The digest covers the queue's id, which no client knows.
 */
export function quarantineRowName({ source, entry, producer = '', id, body }: QuarantinedEvent): string {
  const digest = createHash('sha256').update(JSON.stringify([source, producer, id]));
  if (id === undefined) digest.update(body);
  return `${source}/${entry}~${digest.digest('hex').slice(0, ROW_DIGEST_CHARACTERS)}`;
}

/** Encodes a NUL, which a text column cannot hold, as `\0`, and doubles backslashes. Used only for the quarantine. */
export const storableText = (name: string): string => name.replaceAll('\\', '\\\\').replaceAll('\0', '\\0');

export const originalText = (stored: string): string =>
  stored.replaceAll(/\\([\\0])/g, (_, character: string) => (character === '0' ? '\0' : character));

export type WarehouseLookup =
  | (FoundEvent & { readonly kind: 'landed'; text: string; type: string; landedAtMs: number })
  | (FoundEvent & { readonly kind: 'rejected'; body: Buffer; reason: string; rejectedAtMs: number })
  | { readonly kind: 'unknown' | 'unavailable' };

/** Selects rows of `table` that landed, or were quarantined, before `beforeMs` (Unix time). */
export interface Pruning {
  readonly table: 'events' | 'quarantine';
  readonly beforeMs: number;
  readonly type?: string | undefined;
}

/** The time and key of a row, in the warehouse's own format. */
export type PruneCursor = readonly [at: string, key: string];

/** `next` is the starting point of the next step; `undefined` after the last row. */
export interface Pruned {
  readonly removed: number;
  readonly next: PruneCursor | undefined;
}

export const PRUNED_TABLES = {
  events: { name: 'events', at: 'landed_at', key: 'id' },
  quarantine: { name: 'events_quarantine', at: 'quarantined_at', key: 'entry' },
} as const;

/** The queue keeps an event for 24 hours. If its row were pruned within that time, the event could land again. */
export const PRUNE_AGE_MS_MIN = 48 * 60 * 60 * 1000;

/** `required` means that the column is NOT NULL and has no default. */
export interface Column {
  readonly table: string;
  readonly name: string;
  readonly required: boolean;
}

const SHARED_COLUMNS = ['id', 'producer', 'accepted_at', 'body', 'traceparent'];
const COLUMNS = {
  events: [...SHARED_COLUMNS, 'type', 'landed_at'],
  events_quarantine: [...SHARED_COLUMNS, 'entry', 'reason', 'quarantined_at'],
};

export function unfitness(columns: readonly Column[]): string | undefined {
  for (const [table, names] of Object.entries(COLUMNS)) {
    const actual = columns.filter((column) => column.table === table);
    const missing = names.find((name) => !actual.some((column) => column.name === name));
    if (missing !== undefined) return `${table} has no column ${missing}`;
    const foreign = actual.find(({ name, required }) => required && !names.includes(name));
    if (foreign !== undefined) return `${table}.${foreign.name} may not be null`;
  }
  return undefined;
}

/** The warehouse refused some content of the batch. The caller splits the batch and tries again. */
export class BatchRefused extends Error {}

/** The message of a refusal without an error, such as by an operator's trigger that inserts nothing. */
export const NO_ROW = 'no row';

/** The batch took too long, and nothing was written. A smaller batch may succeed. */
export class BatchTooSlow extends Error {}

/** The database, schema, role, password, rights or encoding is wrong. */
export class WarehouseMisconfigured extends Error {}

/** The tables have a form that this version neither uses nor migrates. */
export class TablesDiffer extends WarehouseMisconfigured {}

export const tablesDiffer = (uri: string, why: string): TablesDiffer =>
  new TablesDiffer(`${uri}: ${why}; start the consumers on an empty warehouse, then copy the old rows into its tables`);

export interface Warehouse {
  /**
   * Creates or migrates the schema. Safe for several processes at the same time. Resolves with the reason if a
   * migration must wait: the tables are usable, and a later call may migrate them.
   */
  prepare(): Promise<string | undefined>;
  /**
   * Writes a batch in one transaction. Rejects with BatchRefused if an event can never be stored, or with
   * BatchTooSlow. Repeating the same batch is safe.
   */
  land(batch: readonly LandingEvent[]): Promise<readonly LandingOutcome[]>;
  /** Keeps rows that exist, but replaces those of events that are erased now, in the same transaction. */
  quarantine(entries: readonly QuarantinedEntry[]): Promise<void>;
  /** Deletes the quarantine rows of events that have landed after a replay. */
  release(rows: readonly string[]): Promise<void>;
  /** Reports for each event whether its producer's row exists with the same body or an erased one. */
  haveLanded(events: readonly LandedBefore[]): Promise<readonly boolean[]>;
  /** A landed row takes precedence over a quarantine row. Never rejects. */
  find(id: string, producer: string): Promise<WarehouseLookup>;
  /** Rejects if the warehouse is unavailable or not usable. */
  probe(): Promise<void>;
  close(): Promise<void>;
}
