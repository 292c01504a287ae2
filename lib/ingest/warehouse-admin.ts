// The warehouse as an operator's program sees it: counts, rows of one id for any producer, and the quarantine.
//
// Every method rejects with WarehouseFailed where the warehouse is unavailable, or its tables are not there; nothing
// makes or migrates them here, that is the consumer's. Tables: lib/ingest/warehouse.ts.
import type { LandingEvent, PruneCursor, Pruned, Pruning } from './warehouse.ts';

/** The warehouse did not answer, or refused. The message is for people and holds no secret. */
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

/** Which quarantine rows; all of them when neither is given. */
export interface QuarantineFilter {
  /** The code that a reason begins with, e.g. `id_conflict`. */
  readonly reason: string | undefined;
  /** Rows put there at this time or later, in Unix milliseconds. */
  readonly sinceMs: number | undefined;
}

export interface WarehouseCounts {
  readonly events: number;
  /** `events` is an estimate: past COUNT_EXACT_MAX rows, counting takes too long. */
  readonly estimated: boolean;
  readonly quarantine: readonly { readonly code: string; readonly rows: number }[];
}

/** What an operator changed; see lib/admin/session.ts. */
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
  /** For messages: the masked URI. */
  readonly place: string;
  counts(): Promise<WarehouseCounts>;
  /** The row of an id, of any producer. */
  landed(id: string): Promise<LandedRow | undefined>;
  /** Rows of a type that landed at a time or later, the oldest first, some at a time. */
  landedSince(type: string, sinceMs: number): AsyncIterable<readonly Pick<LandedRow, 'id' | 'body'>[]>;
  quarantineOf(id: string): Promise<readonly QuarantineBody[]>;
  quarantineRow(entry: string): Promise<QuarantineBody | undefined>;
  /** The newest rows first, some at a time; `limit` at most. */
  quarantineList(filter: QuarantineFilter, limit: number): AsyncIterable<readonly QuarantineRow[]>;
  quarantineCount(filter: QuarantineFilter): Promise<number>;
  /** Names of rows, in the order of names, behind `after`. */
  quarantineNames(filter: QuarantineFilter, after: string, limit: number): Promise<readonly string[]>;
  /** Which of some rows are there. */
  present(entries: readonly string[]): Promise<ReadonlySet<string>>;
  /** Removes rows and gives how many there were. */
  drop(entries: readonly string[]): Promise<number>;
  /** Unix time in milliseconds by the warehouse's clock; undefined if it has none of its own. */
  clock(): Promise<number | undefined>;
  /**
   * Examines the next `limit` old rows, the oldest first, and removes those of the type in `pruning` that were also
   * accepted before `beforeMs`.
   */
  prune(pruning: Pruning, from: PruneCursor | undefined, limit: number): Promise<Pruned>;
  /** Makes the row of an event, unless its id has one, or the warehouse refuses what the event holds. */
  land(event: LandingEvent): Promise<void>;
  /** Overwrites the body of an id's row. */
  overwriteLanded(id: string, body: string): Promise<void>;
  overwriteQuarantined(entry: string, body: string): Promise<void>;
  /**
   * Removes from the warehouse's own files what was overwritten. Gives what only the operator can do about the rest, in
   * words for people; undefined where there is no rest. Rejects where the same call may do it later.
   */
  eraseTraces(): Promise<string | undefined>;
  /** Writes a record, or its `changed` where it is there already. */
  audit(record: AuditRecord): Promise<void>;
  close(): Promise<void>;
}

/** The code of a quarantine reason, `<code>: <words>`. */
export const reasonCode = (reason: string): string => reason.split(':', 1)[0] ?? reason;
