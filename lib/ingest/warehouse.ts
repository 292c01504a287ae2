// The warehouse port: one row per id for ever, and a quarantine for what cannot be one.
//
// The primary key decides which of two events with one id is the row; nothing else remembers. SQLite and PostgreSQL
// implement it; test/contract/warehouse.ts is the suite that both run.
//
// Tables (names are part of the contract with those who query them):
//   events(id primary key, type, producer, accepted_at, landed_at, body, traceparent)
//   events_quarantine(entry primary key, id, producer, reason, accepted_at, quarantined_at, body, traceparent)
//   ingest_audit(id primary key, at, actor, command, what, changed)
import { createHash } from 'node:crypto';
import { isErased } from './erased.ts';

/**
 * One event to land. It has passed parseEvent, so `body` is valid UTF-8; it is stored byte for byte. Times are Unix
 * milliseconds, 0 to TIME_MS_MAX.
 */
export interface LandingEvent {
  readonly id: string;
  readonly type: string;
  readonly producer: string;
  readonly body: Buffer;
  readonly acceptedAtMs: number;
  readonly traceparent?: string | undefined;
}

/** An event that may have landed before. */
export type LandedBefore = Pick<LandingEvent, 'id' | 'producer' | 'body'>;

/** The last time that a JavaScript Date can hold, and that both PostgreSQL and SQLite keep. */
export const TIME_MS_MAX = 8.64e15;

/**
 * What became of each event of a batch, in the batch's order.
 * - `landed`: this call made the row.
 * - `duplicate`: the same producer's row was there already, with the same body, or either was erased.
 * - `reused`: the same producer's row was there already, with another body.
 * - `conflict`: the row of this id belongs to another producer, so this event cannot land.
 */
export type LandingOutcome = 'landed' | RepeatOutcome;
export type RepeatOutcome = 'duplicate' | 'reused' | 'conflict';

/**
 * The row of an event's id, as the warehouse itself compares it: neither its body nor its producer leaves the
 * warehouse, so a landing transaction brings back a few bytes for each event, however long the rows are. `own`: of the
 * same producer. `same`: with the same body, or with an erased one.
 */
export interface ComparedRow {
  readonly own: boolean;
  readonly same: boolean;
}

/**
 * The outcome of an event whose id has a row. An entry may be read again while its event is being erased, so an erased
 * body equals any body.
 */
export function repeatOutcome(body: Buffer, { own, same }: ComparedRow): RepeatOutcome {
  if (!own) return 'conflict';
  return same || isErased(body) ? 'duplicate' : 'reused';
}

/**
 * SQL for the erased body of a row. `id` is a parameter with the id as a JSON string; `type` is a column, and types
 * need no escapes.
 */
export const erasedBodySql = (id: string, type: string): string =>
  `'{"id":' || ${id} || ',"type":"' || ${type} || '","erased":true}'`;

/**
 * One entry that cannot land. `id` is absent where none could be read. `body` is the raw bytes. The quarantine takes
 * anything: a NUL in `producer`, which text columns refuse, is kept in the form of storableText.
 */
export interface QuarantinedEntry {
  /** The row's name: see quarantineRowName. */
  readonly entry: string;
  readonly id?: string;
  readonly producer: string;
  readonly reason: string;
  readonly acceptedAtMs: number;
  readonly body: Buffer;
  readonly traceparent?: string | undefined;
}

/** The event of an entry, as its quarantine row is named by it. */
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
 * The name of an entry's quarantine row. A server that lacks the last writes of the one before (a fail-over) gives
 * their entries' names to other events, so the name alone does not identify an event; the digest does, and is keyed
 * with the queue's id, which no client knows.
 */
export function quarantineRowName({ source, entry, producer, id, body }: QuarantinedEvent): string {
  const digest = createHash('sha256').update(JSON.stringify([source, producer, id]));
  if (id === undefined) digest.update(body);
  return `${source}/${entry}~${digest.digest('hex').slice(0, ROW_DIGEST_CHARACTERS)}`;
}

/**
 * A name as a text column can hold it: a NUL becomes the two characters `\0`, and a backslash becomes two of them,
 * so that no two names become one. Only the quarantine stores names this way.
 */
export function storableText(name: string): string {
  return name.replaceAll('\\', '\\\\').replaceAll('\0', '\\0');
}

/** The name that storableText made `stored` of. */
export function originalText(stored: string): string {
  return stored.replaceAll(/\\([\\0])/g, (_, kept: string) => (kept === '0' ? '\0' : kept));
}

/** The state of an event for the producer that sent it. */
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

/** Which rows are old: those of `table` that landed, or were put in quarantine, before `beforeMs` (Unix time). */
export interface Pruning {
  readonly table: 'events' | 'quarantine';
  readonly beforeMs: number;
  /** Of events: only those of this type. */
  readonly type?: string | undefined;
}

/** Time and key of a row, in the warehouse's own form. */
export type PruneCursor = readonly [at: string, key: string];

/** `next` is where the next step begins; undefined: there is no older row any more. */
export interface Pruned {
  readonly removed: number;
  readonly next: PruneCursor | undefined;
}

export const PRUNED_TABLES = {
  events: { name: 'events', at: 'landed_at', key: 'id' },
  quarantine: { name: 'events_quarantine', at: 'quarantined_at', key: 'entry' },
} as const;

/**
 * The youngest that may be removed, in milliseconds: the queue knows an id for 24 hours, and what left the warehouse
 * before would land as a second row.
 */
export const PRUNE_AGE_MS_MIN = 48 * 60 * 60 * 1000;

/** A column as a schema has it. `required`: it may not be null and has no default. */
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

/** Why this program cannot work with tables of another version; undefined if it can. */
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

/** The batch was refused for what it holds, not because the warehouse is unavailable: halve it and try again. */
export class BatchRefused extends Error {
  override readonly name = 'BatchRefused';
}

/** The batch took longer than a call may, and nothing of it was written: a smaller one may pass. */
export class BatchTooSlow extends Error {
  override readonly name = 'BatchTooSlow';
}

/**
 * The warehouse answers, and cannot work as it is configured: a wrong database, schema, role, password, right or
 * encoding. Trying again helps only after somebody has changed something. The message names the masked URI and the
 * cause.
 */
export class WarehouseMisconfigured extends Error {
  override readonly name = 'WarehouseMisconfigured';
}

/** The tables have a form that this version neither uses nor migrates; waiting does not help. */
export class TablesDiffer extends WarehouseMisconfigured {}

export const tablesDiffer = (place: string, why: string): TablesDiffer =>
  new TablesDiffer(
    `${place}: ${why}; start the consumers on an empty warehouse, then copy the old rows into its tables`,
  );

export interface Warehouse {
  /**
   * Makes or migrates the schema. Safe when several processes do it at once. Resolves with undefined once the schema is
   * up to date, or with the reason why its migration waits: the tables can be used as they are, and the same call may
   * migrate them later. Rejects when the warehouse is unavailable.
   */
  prepare(): Promise<string | undefined>;
  /**
   * Writes a batch in one transaction. Rejects with BatchRefused when an event in it can never be stored, with
   * BatchTooSlow when it took too long, with anything else when the warehouse is unavailable (nothing was written, or
   * it is not known; the same batch again is safe).
   */
  land(batch: readonly LandingEvent[]): Promise<readonly LandingOutcome[]>;
  /** Writes quarantine rows; a row that is there already is left alone. */
  quarantine(entries: readonly QuarantinedEntry[]): Promise<void>;
  /** Removes the quarantine rows of these names, whose events were replayed and have landed now. */
  release(rows: readonly string[]): Promise<void>;
  /** Whether each event has landed: its id has a row of its producer, with its body or an erased one. One query. */
  haveLanded(events: readonly LandedBefore[]): Promise<readonly boolean[]>;
  /** A landed row wins over a quarantine row of the same id. Rejects never. */
  find(id: string, producer: string): Promise<WarehouseLookup>;
  /** Resolves when the warehouse can be written to, rejects when not. */
  probe(): Promise<void>;
  close(): Promise<void>;
}
