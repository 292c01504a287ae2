// The SQLite file and its statements, in the worker thread. All methods except `prepare` are synchronous.
//
// Invariants: a batch is one IMMEDIATE transaction with `synchronous = FULL`, so landed events survive a power
// failure. Only `prepare` creates the file. If the file is deleted later, calls fail; if it is replaced, the next
// call opens the new file. The same applies to its write-ahead log and the log's index: SQLite would keep using deleted
// ones, which no other program sees. So rows are never written to a deleted file.
//
// There is one writer at a time. Another process waits up to BUSY_TIMEOUT_MS, then its call throws.
import { statSync } from 'node:fs';
import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import { isErased } from '../ingest/erased.ts';
import {
  BatchRefused,
  erasedBodySql,
  NO_ROW,
  repeatOutcome,
  storableText,
  type ComparedRow,
  type LandedBefore,
  type LandingEvent,
  type LandingOutcome,
  type QuarantinedEntry,
  type WarehouseLookup,
} from '../ingest/warehouse.ts';
import { findSql, lookupOf } from '../ingest/warehouse-tables.ts';
import type { Clock } from '../process/clock.ts';
import { isSameProducer } from '../process/producer-name.ts';
import { busy, misconfigured, NO_FILE, numbered, openFile, prepareFile, refuses } from './file.ts';

// Casting a blob to TEXT does not change its bytes (sqlite.org/lang_expr.html, section 12).
const EVENT = '(?, ?, ?, ?, ?, CAST(? AS TEXT), ?)';
const INSERT = 'INSERT INTO events (id, type, producer, accepted_at, landed_at, body, traceparent) VALUES';
const LAND = `${INSERT} ${EVENT} ON CONFLICT (id) DO NOTHING`;
// Fact: calling a statement takes a third of the time of an insert. Choice: one statement inserts this many rows. If
// one of them is not new, the statement fails, and the rows are inserted one by one.
const ROWS_AT_ONCE = 8;
const LAND_NEW = `${INSERT} ${Array.from({ length: ROWS_AT_ONCE }, () => EVENT).join(', ')}`;
// Parameters: body, the id as a JSON string, id.
const COMPARED = `
  SELECT producer, body = CAST(? AS TEXT) OR body = ${erasedBodySql('?', 'type')} AS same
  FROM events WHERE id = ?`;
const QUARANTINE = `INSERT INTO events_quarantine
  (entry, id, producer, reason, accepted_at, quarantined_at, body, traceparent)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (entry) DO NOTHING`;
const RELEASE = 'DELETE FROM events_quarantine WHERE entry = ?';
const FIND = numbered(findSql((column) => column));

interface Handle {
  readonly database: DatabaseSync;
  readonly inode: string;
  /** The log and its index. SQLite creates them for the first call. */
  logs: readonly string[] | undefined;
  readonly statements: Map<string, StatementSync>;
}

export interface SqliteWarehouseOptions {
  readonly path: string;
  readonly readOnly?: boolean;
}

export class Database {
  readonly #clock: Clock;
  readonly #path: string;
  readonly #readOnly: boolean;
  #handle: Handle | undefined;

  constructor({ clock, path, readOnly = false }: SqliteWarehouseOptions & { readonly clock: Clock }) {
    this.#clock = clock;
    this.#path = path;
    this.#readOnly = readOnly;
  }

  prepare(): Promise<string | undefined> {
    return prepareFile(this.#path, this.#clock);
  }

  land(batch: readonly LandingEvent[]): readonly LandingOutcome[] {
    return this.#inTransaction((open) => {
      const landedAt = isoTime(this.#clock.epochMs());
      const outcomes: LandingOutcome[] = [];
      for (let from = 0; from < batch.length; from += ROWS_AT_ONCE) {
        const events = batch.slice(from, from + ROWS_AT_ONCE);
        const areNew = events.length === ROWS_AT_ONCE && landNew(open, events, landedAt);
        for (const event of events) outcomes.push(areNew ? 'landed' : landOne(open, event, landedAt));
      }
      return outcomes;
    });
  }

  quarantine(entries: readonly QuarantinedEntry[]): void {
    const now = isoTime(this.#clock.epochMs());
    this.#inTransaction((open) => entries.forEach((one) => quarantineOne(open, one, now)));
  }

  release(rows: readonly string[]): void {
    this.#inTransaction((open) => rows.forEach((row) => statement(open, RELEASE).run(row)));
  }

  haveLanded(events: readonly LandedBefore[]): readonly boolean[] {
    return this.#using((open) =>
      events.map((event) => {
        const row = comparedRow(open, event);
        return row !== undefined && row.own && row.same;
      }),
    );
  }

  find(id: string, producer: string): WarehouseLookup {
    return this.#using((open) => {
      const candidates = statement(open, FIND).all(id, storableText(producer));
      return lookupOf(candidates, producer, isSameProducer);
    });
  }

  probe(): void {
    const sql = 'SELECT (SELECT 1 FROM events LIMIT 1), (SELECT 1 FROM events_quarantine LIMIT 1)';
    this.#using((open) => void open.database.prepare(sql).get());
  }

  close(): void {
    try {
      this.#handle?.database.close();
    } finally {
      this.#handle = undefined;
    }
  }

  get #logs(): readonly string[] {
    return [`${this.#path}-wal`, `${this.#path}-shm`].map(inodeOf);
  }

  /** Throws if the file does not exist. Opens it again if it, its log or the log's index was deleted or replaced. */
  #opened(): Handle {
    const inode = inodeOf(this.#path);
    if (inode === MISSING) throw new Error(NO_FILE);
    if (this.#handle !== undefined && this.#handle.inode !== inode) this.close();
    if (this.#handle?.logs !== undefined) this.#keepLog(this.#handle.database, this.#handle.logs);
    const statements = new Map<string, StatementSync>();
    return (this.#handle ??= { database: openFile(this.#path, this.#readOnly), inode, logs: undefined, statements });
  }

  #keepLog(database: DatabaseSync, previous: readonly string[]): void {
    const logs = this.#logs;
    if (logs.every((one, at) => one === previous[at])) return;
    // The rows in the log are saved, unless another program has begun a new log or index.
    const isOurs = logs.every((one, at) => one === MISSING || one === previous[at]);
    if (isOurs && !this.#readOnly) database.exec('PRAGMA wal_checkpoint(PASSIVE)');
    this.close();
  }

  #inTransaction<T>(work: (open: Handle) => T): T {
    return this.#using((open) => transaction(open, () => work(open)));
  }

  /** Closes the file after a failure that neither the data nor another writer caused. The next call reopens it. */
  #using<T>(work: (open: Handle) => T): T {
    try {
      const handle = this.#opened();
      const result = work(handle);
      handle.logs ??= this.#logs;
      return result;
    } catch (cause) {
      if (!(cause instanceof BatchRefused) && !busy(cause)) this.close();
      throw misconfigured(cause, this.#path);
    }
  }
}

const MISSING = '';

function inodeOf(path: string): string {
  const status = statSync(path, { bigint: true, throwIfNoEntry: false });
  return status === undefined ? MISSING : `${status.dev} ${status.ino}`;
}

function transaction<T>(open: Handle, work: () => T): T {
  open.database.exec('BEGIN IMMEDIATE');
  try {
    const result = work();
    open.database.exec('COMMIT');
    return result;
  } catch (cause) {
    if (open.database.isTransaction) open.database.exec('ROLLBACK');
    throw refuses(cause) ? new BatchRefused(`SQLITE_${cause.errcode}`, { cause }) : cause;
  }
}

const rowOf = (
  { id, type, producer, acceptedAtMs, body, traceparent }: LandingEvent,
  landedAt: string,
): readonly SQLInputValue[] => [id, type, producer, isoTime(acceptedAtMs), landedAt, body, traceparent ?? null];

function landNew(open: Handle, events: readonly LandingEvent[], landedAt: string): boolean {
  try {
    const { changes } = statement(open, LAND_NEW).run(...events.flatMap((event) => rowOf(event, landedAt)));
    return changes === ROWS_AT_ONCE;
  } catch (cause) {
    // A violated constraint undoes only its statement, and the transaction continues (sqlite.org/lang_conflict.html,
    // ABORT).
    if (refuses(cause) && open.database.isTransaction) return false;
    throw cause;
  }
}

function landOne(open: Handle, event: LandingEvent, landedAt: string): LandingOutcome {
  if (statement(open, LAND).run(...rowOf(event, landedAt)).changes === 1) return 'landed';
  const compared = comparedRow(open, event);
  if (compared === undefined) throw new BatchRefused(NO_ROW);
  return repeatOutcome(event.body, compared);
}

function comparedRow(open: Handle, { id, producer, body }: LandedBefore): ComparedRow | undefined {
  const row = statement(open, COMPARED).get(body, JSON.stringify(id), id);
  return row && { own: isSameProducer(String(row['producer']), producer), same: row['same'] === 1 };
}

function quarantineOne(open: Handle, quarantined: QuarantinedEntry, now: string): void {
  const { entry, id, producer, reason, acceptedAtMs, body, traceparent } = quarantined;
  // A worker receives a plain Uint8Array.
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  if (isErased(bytes)) statement(open, RELEASE).run(entry);
  const about = [storableText(producer), reason, isoTime(acceptedAtMs), now, body, traceparent ?? null] as const;
  statement(open, QUARANTINE).run(entry, id ?? null, ...about);
}

function statement({ database, statements }: Handle, sql: string): StatementSync {
  let prepared = statements.get(sql);
  if (prepared === undefined) statements.set(sql, (prepared = database.prepare(sql)));
  return prepared;
}

// Fact: toISOString takes a third of the time of an insert. Choice: the last text is cached, because neighboring
// events in a batch often have the same millisecond.
let lastMs = Number.NaN;
let lastText = '';
function isoTime(ms: number): string {
  if (ms !== lastMs) {
    lastText = new Date(ms).toISOString();
    lastMs = ms;
  }
  return lastText;
}
