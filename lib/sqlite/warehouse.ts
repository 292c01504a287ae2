// The warehouse in one SQLite file: the embedded default, nothing to install, several processes at once.
//
// Invariant: a batch is one IMMEDIATE transaction, committed with `synchronous = FULL`: what this module calls landed
// has survived a power cut. Only `prepare` makes the file. Afterwards a file that is missing, or that is not the one
// that was opened, means "the warehouse is away": rows are never written into a deleted file or into a fresh empty one.
//
// Limits: one writer at a time; another process waits up to BUSY_TIMEOUT_MS, then its call rejects and is tried again.
// node:sqlite is synchronous, so a call holds the event loop while it runs. Not for network file systems, where
// SQLite's locks do not hold.
import { statSync, type BigIntStats } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import {
  BatchRefused,
  type Landing,
  storableText,
  type Warehouse,
  type WarehouseLookup,
} from '../ingest/warehouse.ts';

/** `readOnly` opens an existing file for look-ups and never writes to it. */
export interface SqliteWarehouseOptions {
  readonly path: string;
  readonly readOnly?: boolean;
}

const BUSY_TIMEOUT_MS = 2_000;
/** How long `prepare` goes on trying while other processes hold the file. */
const PREPARE_TIMEOUT_MS = 10_000;
const PREPARE_RETRY_MS = 50;

const SCHEMA_VERSION = 1;

// The times are RFC 3339 text in UTC, for people at a shell. A NUL in a name would cut it short there, so the row is
// refused, as PostgreSQL refuses it. BINARY is SQLite's default collation: ids compare byte by byte.
const SCHEMA = `
  CREATE TABLE events (
    id          TEXT NOT NULL PRIMARY KEY,
    type        TEXT NOT NULL,
    producer    TEXT NOT NULL CHECK (instr(producer, char(0)) = 0),
    accepted_at TEXT NOT NULL,
    landed_at   TEXT NOT NULL,
    body        TEXT NOT NULL
  ) STRICT;
  CREATE TABLE events_quarantine (
    entry          TEXT NOT NULL PRIMARY KEY,
    id             TEXT,
    producer       TEXT NOT NULL,
    reason         TEXT NOT NULL,
    accepted_at    TEXT NOT NULL,
    quarantined_at TEXT NOT NULL,
    body           BLOB NOT NULL
  ) STRICT;
  CREATE INDEX events_quarantine_id ON events_quarantine (id);
  PRAGMA user_version = ${SCHEMA_VERSION};`;

// CAST of a blob to TEXT takes the bytes as they are (sqlite.org/lang_expr.html, section 12).
const LAND = `INSERT INTO events (id, type, producer, accepted_at, landed_at, body) VALUES (?, ?, ?, ?, ?, CAST(? AS TEXT))
  ON CONFLICT (id) DO NOTHING`;
const OWNER = 'SELECT producer FROM events WHERE id = ?';
const QUARANTINE = `INSERT INTO events_quarantine (entry, id, producer, reason, accepted_at, quarantined_at, body)
  VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (entry) DO NOTHING`;
const FIND_LANDED = 'SELECT type, accepted_at, landed_at, body FROM events WHERE id = ? AND producer = ?';
const FIND_REJECTED = `SELECT reason, accepted_at, quarantined_at, body FROM events_quarantine
  WHERE id = ? AND producer = ? ORDER BY quarantined_at DESC LIMIT 1`;

/** An open file, with its statements, and what it was when it was opened. */
interface Handle {
  readonly database: DatabaseSync;
  readonly identity: BigIntStats;
  readonly statements: Map<string, StatementSync>;
}

export function createSqliteWarehouse({ path, readOnly = false }: SqliteWarehouseOptions): Warehouse {
  let handle: Handle | undefined;

  function release(): void {
    try {
      handle?.database.close();
    } finally {
      handle = undefined;
    }
  }

  /** The open file. Throws where it is not there any more, or has been replaced since. */
  function opened(): Handle {
    const identity = statSync(path, { bigint: true });
    if (handle !== undefined && (handle.identity.ino !== identity.ino || handle.identity.dev !== identity.dev)) release();
    return (handle ??= { database: open(path, readOnly), identity, statements: new Map() });
  }

  /** Runs `work`; what fails for another reason than the data lets go of the file, so that the next call opens it anew. */
  function using<T>(work: (open: Handle) => T): T {
    try {
      return work(opened());
    } catch (cause) {
      if (!(cause instanceof BatchRefused) && !busy(cause)) release();
      throw cause;
    }
  }

  return {
    async prepare() {
      const deadline = Date.now() + PREPARE_TIMEOUT_MS;
      for (;;) {
        try {
          return makeSchema(path);
        } catch (cause) {
          if (!busy(cause) || Date.now() >= deadline) throw cause;
          await delay(PREPARE_RETRY_MS);
        }
      }
    },

    land: (batch) =>
      settled(() =>
        using((open) =>
          transaction(open, () => {
            const landedAt = new Date().toISOString();
            return batch.map(({ id, type, producer, acceptedAtMs, body }): Landing => {
              const made = statement(open, LAND).run(id, type, producer, isoTime(acceptedAtMs), landedAt, body);
              if (made.changes === 1) return 'landed';
              return statement(open, OWNER).get(id)?.['producer'] === producer ? 'duplicate' : 'conflict';
            });
          }),
        ),
      ),

    quarantine: (entries) =>
      settled(() =>
        using((open) =>
          transaction(open, () => {
            const now = new Date().toISOString();
            for (const { entry, id, producer, reason, acceptedAtMs, body } of entries) {
              const name = storableText(producer);
              statement(open, QUARANTINE).run(entry, id ?? null, name, reason, isoTime(acceptedAtMs), now, body);
            }
          }),
        ),
      ),

    find: (id, producer) =>
      settled(() => {
        if (!id.isWellFormed() || !producer.isWellFormed()) return { kind: 'unknown' };
        try {
          return using((open) => lookup(open, id, producer));
        } catch {
          return { kind: 'unavailable' };
        }
      }),

    probe: () => settled(() => using((open) => void open.database.prepare('SELECT 1 FROM events LIMIT 1').get())),

    close: () => settled(release),
  };
}

/** A rejection where `work` throws: the port's methods are asynchronous, node:sqlite is not. */
const settled = <T>(work: () => T): Promise<T> => new Promise((resolve) => resolve(work()));

function open(path: string, readOnly: boolean): DatabaseSync {
  const database = new DatabaseSync(path, { readOnly, timeout: BUSY_TIMEOUT_MS });
  if (!readOnly) database.exec('PRAGMA synchronous = FULL');
  return database;
}

function makeSchema(path: string): void {
  const database = open(path, false);
  try {
    database.exec('PRAGMA journal_mode = WAL');
    if (schemaVersion(database) === SCHEMA_VERSION) return;
    database.exec('BEGIN IMMEDIATE');
    try {
      const found = schemaVersion(database);
      if (found > SCHEMA_VERSION) throw new Error(`the schema has version ${found}, and this program knows ${SCHEMA_VERSION}`);
      if (found < SCHEMA_VERSION) database.exec(SCHEMA);
      database.exec('COMMIT');
    } catch (cause) {
      if (database.isTransaction) database.exec('ROLLBACK');
      throw cause;
    }
  } finally {
    database.close();
  }
}

const schemaVersion = (database: DatabaseSync): number => Number(database.prepare('PRAGMA user_version').get()?.['user_version']);

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

function statement({ database, statements }: Handle, sql: string): StatementSync {
  let prepared = statements.get(sql);
  if (prepared === undefined) statements.set(sql, (prepared = database.prepare(sql)));
  return prepared;
}

function lookup(open: Handle, id: string, producer: string): WarehouseLookup {
  const landed = statement(open, FIND_LANDED).get(id, producer);
  if (landed !== undefined) {
    const { type, body } = landed as { type: string; body: string };
    return { kind: 'landed', text: body, type, acceptedAtMs: timeMs(landed['accepted_at']), landedAtMs: timeMs(landed['landed_at']) };
  }
  const rejected = statement(open, FIND_REJECTED).get(id, storableText(producer));
  if (rejected === undefined) return { kind: 'unknown' };
  const { reason, body } = rejected as { reason: string; body: Uint8Array };
  return {
    kind: 'rejected',
    body: Buffer.from(body.buffer, body.byteOffset, body.byteLength),
    reason,
    acceptedAtMs: timeMs(rejected['accepted_at']),
    rejectedAtMs: timeMs(rejected['quarantined_at']),
  };
}

const isoTime = (timeMs: number): string => new Date(timeMs).toISOString();
const timeMs = (text: unknown): number => Date.parse(String(text));

/** What node:sqlite throws; `errcode` is SQLite's extended result code (sqlite.org/rescode.html). */
type SqliteError = Error & { readonly errcode: number };

const isSqliteError = (cause: unknown): cause is SqliteError =>
  cause instanceof Error && 'errcode' in cause && typeof cause.errcode === 'number';

const primaryCode = (cause: SqliteError): number => cause.errcode & 0xff;

/** SQLITE_BUSY, SQLITE_LOCKED: another process holds the file. */
const busy = (cause: unknown): boolean => isSqliteError(cause) && [5, 6].includes(primaryCode(cause));

/** SQLITE_TOOBIG, SQLITE_CONSTRAINT, SQLITE_MISMATCH: they speak of the data, and would say the same tomorrow. */
const refuses = (cause: unknown): cause is SqliteError => isSqliteError(cause) && [18, 19, 20].includes(primaryCode(cause));
