// The SQLite file and the schema in it: how it is opened, made and brought up to date.
import { setTimeout as delay } from 'node:timers/promises';
import { DatabaseSync } from 'node:sqlite';
import { WarehouseMisconfigured } from '../ingest/warehouse.ts';
import { busy } from './result-codes.ts';

/** How long a call waits for another process that writes; then it throws. */
const BUSY_TIMEOUT_MS = 2_000;
/** How long `prepareFile` goes on trying while other processes hold the file. */
const PREPARE_TIMEOUT_MS = 10_000;
const PREPARE_RETRY_MS = 50;

// The times are RFC 3339 text in UTC, for people at a shell. A NUL in a name would cut it short there, so the row is
// refused, as PostgreSQL refuses it. BINARY is SQLite's default collation: ids compare byte by byte.
const STEPS: readonly string[] = [
  `CREATE TABLE events (
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
  CREATE INDEX events_quarantine_id ON events_quarantine (id);`,
  // An entry's name is unique in its stream only. From here on the queue and the stream stand before it; of the rows
  // that are there it is known that they come from the stream `ingest`, and not of which queue.
  `UPDATE events_quarantine SET entry = 'unknown/ingest/' || entry WHERE instr(entry, '/') = 0;`,
  `ALTER TABLE events ADD COLUMN traceparent TEXT;
  ALTER TABLE events_quarantine ADD COLUMN traceparent TEXT;`,
];
/** Kept in the file as `user_version`: how many of the steps have run. */
const SCHEMA_VERSION = STEPS.length;

/** Makes the file, or brings its schema up to date. */
export async function prepareFile(path: string): Promise<void> {
  const deadline = Date.now() + PREPARE_TIMEOUT_MS;
  for (;;) {
    try {
      return makeSchema(path);
    } catch (cause) {
      if (!busy(cause) || Date.now() >= deadline) throw cause;
      await delay(PREPARE_RETRY_MS);
    }
  }
}

/** Opens the file. `readOnly` opens an existing one for look-ups. */
export function openFile(path: string, readOnly: boolean): DatabaseSync {
  const database = new DatabaseSync(path, { readOnly, timeout: BUSY_TIMEOUT_MS });
  if (!readOnly) database.exec('PRAGMA synchronous = FULL');
  return database;
}

/**
 * How many steps have run in a file that is there; 0 where it has no tables yet. Throws WarehouseMisconfigured at one of
 * a newer program.
 */
export function inspectSqlite(path: string): number {
  const database = openFile(path, true);
  try {
    return knownVersion(database, path);
  } finally {
    database.close();
  }
}

function makeSchema(path: string): void {
  const database = openFile(path, false);
  try {
    database.exec('PRAGMA journal_mode = WAL');
    if (schemaVersion(database) === SCHEMA_VERSION) return;
    database.exec('BEGIN IMMEDIATE');
    try {
      const found = knownVersion(database, path);
      for (const step of STEPS.slice(found)) database.exec(step);
      database.exec(`PRAGMA user_version = ${SCHEMA_VERSION}`);
      database.exec('COMMIT');
    } catch (cause) {
      if (database.isTransaction) database.exec('ROLLBACK');
      throw cause;
    }
  } finally {
    database.close();
  }
}

function knownVersion(database: DatabaseSync, path: string): number {
  const found = schemaVersion(database);
  if (found > SCHEMA_VERSION)
    throw new WarehouseMisconfigured(
      `sqlite:${path}: the schema has version ${found}, and this program knows ${SCHEMA_VERSION}`,
    );
  return found;
}

const schemaVersion = (database: DatabaseSync): number =>
  Number(database.prepare('PRAGMA user_version').get()?.['user_version']);
