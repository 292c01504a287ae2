// The warehouse port of ingest-admin. Every method rejects with WarehouseFailed if the warehouse is unavailable or
// its tables are missing, because only the consumer creates and migrates tables. warehouse.ts describes the tables.
import type { LandingEvent, PruneCursor, Pruned, Pruning, QuarantinedEntry } from './warehouse.ts';

export class WarehouseFailed extends Error {}

export interface LandedRow extends Omit<LandingEvent, 'body' | 'traceparent'> {
  readonly landedAtMs: number;
  readonly body: string;
}

export interface QuarantineRow extends Pick<QuarantinedEntry, 'entry' | 'producer' | 'reason' | 'acceptedAtMs'> {
  readonly id: string | undefined;
  readonly traceparent: string | undefined;
  readonly quarantinedAtMs: number;
  readonly bodyBytes: number;
}

export interface QuarantineBody extends QuarantineRow {
  readonly body: Buffer;
}

export interface QuarantineFilter {
  readonly reason: string | undefined;
  readonly sinceMs: number | undefined;
}

export interface WarehouseCounts {
  readonly events: number;
  /** True if `events` is an estimate, because counting more than COUNT_EXACT_MAX rows takes too long. */
  readonly estimated: boolean;
  readonly quarantine: readonly { readonly code: string; readonly rows: number }[];
}

/** A change made by an operator; see lib/admin/session.ts. */
interface AuditRecord {
  readonly id: string;
  readonly atMs: number;
  /** `<user>@<host>`. */
  readonly actor: string;
  readonly command: string;
  readonly what: string;
  readonly changed: number | undefined;
}

interface Removal {
  readonly names: readonly string[];
  readonly atMs: number;
  /** True until the command ends. */
  readonly isOpen: boolean;
}

/** A row of `events`, without its body. */
export interface RowDigest extends Pick<LandingEvent, 'id' | 'producer' | 'acceptedAtMs'> {
  /** The SHA-256 of the body, in hexadecimal. */
  readonly digest: string;
  readonly erased: boolean;
}

export const COUNT_EXACT_MAX = 1_000_000;

export interface WarehouseAdmin {
  /** Without secrets. */
  readonly uri: string;
  counts(): Promise<WarehouseCounts>;
  landed(id: string): Promise<LandedRow | undefined>;
  rowsOf(ids: readonly string[]): Promise<readonly RowDigest[]>;
  /** Yields pages of rows, oldest first. */
  landedSince(type: string, sinceMs: number): AsyncIterable<readonly Pick<LandedRow, 'id' | 'body'>[]>;
  quarantineOf(id: string): Promise<readonly QuarantineBody[]>;
  quarantineRow(entry: string): Promise<QuarantineBody | undefined>;
  /** Yields pages of rows, newest first. */
  quarantineList(filter: QuarantineFilter): AsyncIterable<readonly QuarantineRow[]>;
  quarantinedIds(ids: readonly string[]): Promise<ReadonlySet<string>>;
  quarantineCount(filter: QuarantineFilter): Promise<number>;
  quarantineNames(filter: QuarantineFilter, after: string, limit: number): Promise<readonly string[]>;
  present(entries: readonly string[]): Promise<ReadonlySet<string>>;
  drop(entries: readonly string[]): Promise<number>;
  /** Returns the warehouse's time in Unix milliseconds, if it has a clock. */
  clock(): Promise<number | undefined>;
  /** Examines the next `limit` old rows. Removes those that match `pruning` and were accepted before `beforeMs`. */
  prune(pruning: Pruning, from: PruneCursor | undefined, limit: number): Promise<Pruned>;
  /** Inserts an event's row, unless its id already has a row or the warehouse refuses the event. */
  land(event: LandingEvent): Promise<void>;
  overwriteLanded(id: string, body: string): Promise<void>;
  overwriteQuarantined(entry: string, body: string): Promise<void>;
  /**
   * Removes overwritten data from the warehouse's own files. Returns a sentence about what the operator still has to
   * do, if anything. Rejects if a later call may succeed.
   */
  eraseTraces(): Promise<string | undefined>;
  audit(record: AuditRecord): Promise<void>;
  /** Yields the records of erased ids, or of the names of dropped quarantine rows, since a time, oldest first. */
  removals(command: 'erase' | 'dropped', sinceMs: number): AsyncIterable<Removal>;
  close(): Promise<void>;
}

/** The form in which the audit table records names: one per line, because ids may contain spaces. */
export const auditLines = (names: readonly string[]): string =>
  names.length === 1 && names[0]?.includes(' ') === false ? names[0] : names.map((name) => `${name}\n`).join('');

export const reasonCode = (reason: string): string => reason.split(':', 1)[0] ?? reason;
