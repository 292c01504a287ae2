// The warehouse port: one permanent row for each id, and a quarantine for events that cannot have one.
//
// The primary key alone decides which of two events with one id has the row. test/contract/warehouse.ts is the suite
// that SQLite and PostgreSQL both run. The names of the tables and columns are a contract with those who query them:
//   events(id primary key, type, producer, accepted_at, landed_at, body, traceparent)
//   events_quarantine(entry primary key, id, producer, reason, accepted_at, quarantined_at, body, traceparent)
//   ingest_audit(id primary key, at, actor, command, what, changed)
import { createHash } from 'node:crypto';
import { isErased } from './erased.ts';

/** One valid event to land. `body` is stored unchanged. Times are Unix milliseconds, 0 to TIME_MS_MAX. */
export interface LandingEvent {
  readonly id: string;
  readonly type: string;
  readonly producer: string;
  readonly body: Buffer;
  readonly acceptedAtMs: number;
  readonly traceparent?: string | undefined;
}

export type LandedBefore = Pick<LandingEvent, 'id' | 'producer' | 'body'>;

/** The last time of a JavaScript Date; PostgreSQL and SQLite keep it too. */
export const TIME_MS_MAX = 8.64e15;

/**
 * The outcome for each event of a batch, in order:
 * - `landed`: this call inserted the row.
 * - `duplicate`: the producer's row with the same body already exists, or one of the two was erased.
 * - `reused`: the producer's row already exists with another body.
 * - `conflict`: the row of this id belongs to another producer, so this event cannot land.
 */
export type LandingOutcome = 'landed' | RepeatOutcome;
export type RepeatOutcome = 'duplicate' | 'reused' | 'conflict';

/**
 * The existing row of an event's id, compared by the warehouse itself, so that no body leaves it. `own`: it has the
 * same producer. `same`: it has the same body, or an erased one.
 */
export interface ComparedRow {
  readonly own: boolean;
  readonly same: boolean;
}

/** An entry may be read again while its event is being erased, so an erased body equals any body. */
export function repeatOutcome(body: Buffer, { own, same }: ComparedRow): RepeatOutcome {
  if (!own) return 'conflict';
  return same || isErased(body) ? 'duplicate' : 'reused';
}

/**
 * SQL for the erased body of a row. `id` is a parameter with a JSON string; `type` is a column, whose values need no
 * escapes.
 */
export const erasedBodySql = (id: string, type: string): string =>
  `'{"id":' || ${id} || ',"type":"' || ${type} || '","erased":true}'`;

/** One entry that cannot land. `id` is unset if it could not be read. A NUL in `producer` is stored by storableText. */
export interface QuarantinedEntry {
  /** See quarantineRowName. */
  readonly entry: string;
  readonly id?: string;
  readonly producer: string;
  readonly reason: string;
  readonly acceptedAtMs: number;
  readonly body: Buffer;
  readonly traceparent?: string | undefined;
}

/** The event of an entry, for the name of its quarantine row. */
export interface QuarantinedEvent {
  /** `<queue id>/<stream>`. */
  readonly source: string;
  readonly entry: string;
  readonly producer: string;
  readonly id?: string | undefined;
  readonly body: Buffer;
}

const ROW_DIGEST_CHARACTERS = 16;

/**
 * The name of an entry's quarantine row. After a fail-over, a server without its predecessor's last writes may give
 * their names to other events, so the name includes a digest of the event. It is keyed with the queue's id, which no
 * client knows.
 */
export function quarantineRowName({ source, entry, producer, id, body }: QuarantinedEvent): string {
  const digest = createHash('sha256').update(JSON.stringify([source, producer, id]));
  if (id === undefined) digest.update(body);
  return `${source}/${entry}~${digest.digest('hex').slice(0, ROW_DIGEST_CHARACTERS)}`;
}

/**
 * A name for a text column: a NUL becomes `\0`, and a backslash is doubled, so different names stay different. Only the
 * quarantine stores names this way.
 */
export function storableText(name: string): string {
  return name.replaceAll('\\', '\\\\').replaceAll('\0', '\\0');
}

/** Reverses storableText. */
export function originalText(stored: string): string {
  return stored.replaceAll(/\\([\\0])/g, (_, kept: string) => (kept === '0' ? '\0' : kept));
}

/** The state of an event for its producer. */
export type WarehouseLookup =
  | {
      readonly kind: 'landed';
      readonly text: string;
      readonly type: string;
      readonly acceptedAtMs: number;
      readonly landedAtMs: number;
      readonly traceparent: string | undefined;
    }
  | {
      readonly kind: 'rejected';
      readonly body: Buffer;
      readonly reason: string;
      readonly acceptedAtMs: number;
      readonly rejectedAtMs: number;
      readonly traceparent: string | undefined;
    }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'unavailable' };

/** Selects rows of `table` that landed, or were quarantined, before `beforeMs` (Unix time). */
export interface Pruning {
  readonly table: 'events' | 'quarantine';
  readonly beforeMs: number;
  /** Only for events: those of this type. */
  readonly type?: string | undefined;
}

/** Time and key of a row, in the warehouse's own form. */
export type PruneCursor = readonly [at: string, key: string];

/** `next` is the start of the next step, if there are older rows. */
export interface Pruned {
  readonly removed: number;
  readonly next: PruneCursor | undefined;
}

export const PRUNED_TABLES = {
  events: { name: 'events', at: 'landed_at', key: 'id' },
  quarantine: { name: 'events_quarantine', at: 'quarantined_at', key: 'entry' },
} as const;

/**
 * The minimum age of pruned rows, in milliseconds. The queue knows an id for 24 hours, so an event whose row was pruned
 * earlier could land again.
 */
export const PRUNE_AGE_MS_MIN = 48 * 60 * 60 * 1000;

/** `required`: the column may not be null and has no default. */
export interface Column {
  readonly table: string;
  readonly name: string;
  readonly required: boolean;
}

const EVENT_COLUMNS = ['id', 'type', 'producer', 'accepted_at', 'landed_at', 'body', 'traceparent'];
const QUARANTINE_COLUMNS = [
  'entry',
  'id',
  'producer',
  'reason',
  'accepted_at',
  'quarantined_at',
  'body',
  'traceparent',
];

/** The reason why this program cannot use tables of another version, if any. */
export function unfitness(columns: readonly Column[]): string | undefined {
  for (const [table, known] of [
    ['events', EVENT_COLUMNS],
    ['events_quarantine', QUARANTINE_COLUMNS],
  ] as const) {
    const found = columns.filter((column) => column.table === table);
    const lacks = known.find((name) => !found.some((column) => column.name === name));
    if (lacks !== undefined) return `${table} has no column ${lacks}`;
    const unknown = found.find(({ name, required }) => required && !known.includes(name));
    if (unknown !== undefined) return `${table}.${unknown.name} may not be null`;
  }
  return undefined;
}

/** The warehouse refused the content of the batch: split it and try again. */
export class BatchRefused extends Error {
  override readonly name = 'BatchRefused';
}

/** The batch took too long, and nothing was written: a smaller one may succeed. */
export class BatchTooSlow extends Error {
  override readonly name = 'BatchTooSlow';
}

/**
 * The warehouse is available but not usable: its database, schema, role, password, rights or encoding is wrong.
 * Retrying helps only after a change. The message names the masked URI and the cause.
 */
export class WarehouseMisconfigured extends Error {
  override readonly name = 'WarehouseMisconfigured';
}

/** This version neither uses nor migrates tables of this form. */
export class TablesDiffer extends WarehouseMisconfigured {}

export const tablesDiffer = (place: string, why: string): TablesDiffer =>
  new TablesDiffer(
    `${place}: ${why}; start the consumers on an empty warehouse, then copy the old rows into its tables`,
  );

export interface Warehouse {
  /**
   * Creates or migrates the schema. Safe for several processes at the same time. Resolves with undefined if the schema
   * is up to date, or with the reason why its migration waits: the tables are usable, and the same call may migrate
   * them later. Rejects if the warehouse is unavailable.
   */
  prepare(): Promise<string | undefined>;
  /**
   * Writes a batch in one transaction. Rejects with BatchRefused if an event can never be stored, with BatchTooSlow if
   * it took too long, or with another error if the warehouse is unavailable. The same batch is safe to repeat.
   */
  land(batch: readonly LandingEvent[]): Promise<readonly LandingOutcome[]>;
  /** Inserts quarantine rows. Existing rows stay unchanged. */
  quarantine(entries: readonly QuarantinedEntry[]): Promise<void>;
  /** Removes the quarantine rows of these names: their events have landed after a replay. */
  release(rows: readonly string[]): Promise<void>;
  /** For each event: its id has a row of its producer with its body or an erased one. One query. */
  haveLanded(events: readonly LandedBefore[]): Promise<readonly boolean[]>;
  /** A landed row has priority over a quarantine row. Never rejects. */
  find(id: string, producer: string): Promise<WarehouseLookup>;
  /** Rejects if the warehouse cannot be written to. */
  probe(): Promise<void>;
  close(): Promise<void>;
}
