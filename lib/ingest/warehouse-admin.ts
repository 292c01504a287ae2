// The warehouse port of ingest-admin. Every method rejects with WarehouseFailed if the warehouse is unavailable or its
// tables are missing. Only the consumer creates and migrates them. Tables: lib/ingest/warehouse.ts.
import type { LandingEvent, PruneCursor, Pruned, Pruning } from './warehouse.ts';

/** The message is for people and holds no secret. */
export class WarehouseFailed extends Error {
  override readonly name = 'WarehouseFailed';
}

export interface LandedRow {
  readonly id: string;
  readonly type: string;
  readonly producer: string;
  readonly acceptedAtMs: number;
  readonly landedAtMs: number;
  readonly body: string;
}

export interface QuarantineRow {
  /** `<queue id>/<stream>/<entry>~<digest>`. */
  readonly entry: string;
  readonly id: string | undefined;
  readonly traceparent: string | undefined;
  readonly producer: string;
  readonly reason: string;
  readonly acceptedAtMs: number;
  readonly quarantinedAtMs: number;
  readonly bodyBytes: number;
}

export interface QuarantineBody extends QuarantineRow {
  readonly body: Buffer;
}

/** Selects quarantine rows; all of them by default. */
export interface QuarantineFilter {
  /** The code at the beginning of a reason, e.g. `id_conflict`. */
  readonly reason: string | undefined;
  /** Rows quarantined since this Unix time in milliseconds. */
  readonly sinceMs: number | undefined;
}

export interface WarehouseCounts {
  readonly events: number;
  /** `events` is an estimate, because counting more than COUNT_EXACT_MAX rows takes too long. */
  readonly estimated: boolean;
  readonly quarantine: readonly { readonly code: string; readonly rows: number }[];
}

/** A change by an operator; see lib/admin/session.ts. */
export interface AuditRecord {
  readonly id: string;
  readonly atMs: number;
  /** `<user>@<host>`. */
  readonly actor: string;
  readonly command: string;
  readonly what: string;
  /** Undefined until the change has ended. */
  readonly changed: number | undefined;
}

export const COUNT_EXACT_MAX = 1_000_000;

export interface WarehouseAdmin {
  /** The masked URI, for messages. */
  readonly place: string;
  counts(): Promise<WarehouseCounts>;
  /** The row of an id, of any producer. */
  landed(id: string): Promise<LandedRow | undefined>;
  /** Pages of rows that landed since a time, oldest first. */
  landedSince(type: string, sinceMs: number): AsyncIterable<readonly Pick<LandedRow, 'id' | 'body'>[]>;
  quarantineOf(id: string): Promise<readonly QuarantineBody[]>;
  quarantineRow(entry: string): Promise<QuarantineBody | undefined>;
  /** Pages of rows, newest first; `limit` rows at most. */
  quarantineList(filter: QuarantineFilter, limit: number): AsyncIterable<readonly QuarantineRow[]>;
  quarantineCount(filter: QuarantineFilter): Promise<number>;
  /** Names of rows in order, from the one after `after`. */
  quarantineNames(filter: QuarantineFilter, after: string, limit: number): Promise<readonly string[]>;
  /** Returns the rows that exist. */
  present(entries: readonly string[]): Promise<ReadonlySet<string>>;
  /** Removes rows and returns their number. */
  drop(entries: readonly string[]): Promise<number>;
  /** Unix time in milliseconds by the warehouse's clock, if it has one. */
  clock(): Promise<number | undefined>;
  /**
   * Examines the next `limit` old rows, oldest first, and removes those of the type in `pruning` that were also
   * accepted before `beforeMs`.
   */
  prune(pruning: Pruning, from: PruneCursor | undefined, limit: number): Promise<Pruned>;
  /** Inserts the row of an event, unless its id has a row or the warehouse refuses the event. */
  land(event: LandingEvent): Promise<void>;
  overwriteLanded(id: string, body: string): Promise<void>;
  overwriteQuarantined(entry: string, body: string): Promise<void>;
  /**
   * Removes overwritten data from the warehouse's own files. Returns a sentence about what remains for the operator to
   * do, if anything. Rejects if the same call may succeed later.
   */
  eraseTraces(): Promise<string | undefined>;
  /** Inserts a record, or updates the `changed` of an existing one. */
  audit(record: AuditRecord): Promise<void>;
  close(): Promise<void>;
}

/** The code of a reason `<code>: <words>`. */
export const reasonCode = (reason: string): string => reason.split(':', 1)[0] ?? reason;
