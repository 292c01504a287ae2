// Opens, creates and migrates the SQLite file.
import { accessSync, closeSync, constants, openSync, opendirSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { tablesDiffer, unfitness, WarehouseMisconfigured, type Column } from '../ingest/warehouse.ts';
import { schemaSteps } from '../ingest/warehouse-tables.ts';
import type { Clock } from '../process/clock.ts';
import { errorCode } from '../process/operator-file.ts';
import { sqliteUri } from '../process/uri.ts';

const BUSY_TIMEOUT_MS = 2_000;
const PREPARE_TIMEOUT_MS = 10_000;
const PREPARE_RETRY_MS = 50;

/** The code of a quarantine reason. An index uses the same expression. */
export const CODE = `CASE instr(reason, ':') WHEN 0 THEN reason ELSE substr(reason, 1, instr(reason, ':') - 1) END`;

// Times are RFC 3339 text in UTC, so that people can read them. A NUL in a producer's name is refused, as in
// PostgreSQL. SQLite compares texts byte by byte.
const PRODUCER = 'text CHECK (instr(producer, char(0)) = 0)';
const TYPES = { name: 'text', producer: PRODUCER, time: 'text', bytes: 'blob', count: 'integer', options: 'STRICT' };
export const STEPS = schemaSteps({ ...TYPES, exists: '' }, CODE);
const NEWEST = STEPS.length;

/** `errcode` is the extended result code (sqlite.org/rescode.html). */
type SqliteError = Error & { readonly errcode: number };

const hasCode = (cause: unknown, primaryCodes: readonly number[]): cause is SqliteError =>
  cause instanceof Error &&
  'errcode' in cause &&
  typeof cause.errcode === 'number' &&
  primaryCodes.includes(cause.errcode & 0xff);

/** SQLITE_BUSY or SQLITE_LOCKED: another process has locked the file. */
export const busy = (cause: unknown): boolean => hasCode(cause, [5, 6]);

/** Converts SQLITE_ERROR: a statement does not fit the tables, because one of them or a column is missing. */
export function misconfigured(cause: unknown, path: string): unknown {
  if (!hasCode(cause, [1])) return cause;
  const isMissing = cause.message.startsWith('no such table');
  const what = isMissing ? 'a table is missing; a consumer that starts on an empty database creates all: ' : '';
  return new WarehouseMisconfigured(`${sqliteUri(path)}: ${what}${cause.message}`, { cause });
}

/** SQLITE_TOOBIG, SQLITE_CONSTRAINT or SQLITE_MISMATCH: the data is at fault, so a retry would fail too. */
export const refuses = (cause: unknown): cause is SqliteError => hasCode(cause, [18, 19, 20]);

export async function prepareFile(path: string, clock: Clock): Promise<string | undefined> {
  const deadline = clock.ms() + PREPARE_TIMEOUT_MS;
  for (;;) {
    try {
      return makeSchema(path);
    } catch (cause) {
      if (!busy(cause) || clock.ms() >= deadline) throw cause;
      await clock.sleep(PREPARE_RETRY_MS);
    }
  }
}

/** node:sqlite binds positional values to ?1 but not to $1, which is a named parameter. */
export const numbered = (sql: string): string => sql.replaceAll('$', '?');

/** `secure_delete` overwrites deleted content, including copies that remain after rows move between pages. */
export function openFile(path: string, readOnly: boolean): DatabaseSync {
  const database = new DatabaseSync(path, { readOnly, timeout: BUSY_TIMEOUT_MS });
  if (!readOnly) database.exec('PRAGMA synchronous = FULL; PRAGMA secure_delete = ON');
  return database;
}

export const NO_FILE = 'there is no such file; the consumer creates it when it starts';

/** Returns the reason why a file cannot be used or created, or NO_FILE if it does not exist yet. Creates nothing. */
export function fileFault(path: string, writes: boolean): string | undefined {
  const folder = dirname(resolve(path));
  let what = `no file can be created in ${folder}`;
  try {
    const status = statSync(path, { throwIfNoEntry: false });
    if (status?.isDirectory() === true) return 'expected a file: this is a directory';
    // SQLite would wait for a writer of a pipe, and the process could not exit until then.
    if (status?.isFile() === false) return 'expected a regular file';
    if (status !== undefined && !writes) return undefined;
    opendirSync(folder).closeSync();
    accessSync(folder, constants.W_OK | constants.X_OK);
    if (status === undefined) return NO_FILE;
    what = 'it cannot be written';
    closeSync(openSync(path, 'r+'));
    return undefined;
  } catch (cause) {
    return `${what} (${errorCode(cause)}): expected a file and a folder that this user can write to`;
  }
}

/** Returns the version of the schema, or 0 if there are no tables. Throws if this program cannot use the schema. */
export function inspectSqlite(path: string): number {
  const database = openFile(path, true);
  try {
    return versionOf(database, path);
  } finally {
    database.close();
  }
}

/** Only the owner may read the bodies in the file. SQLite gives the write-ahead log the same mode. */
const FILE_MODE = 0o600;

function makeSchema(path: string): string | undefined {
  if (statSync(path, { throwIfNoEntry: false }) === undefined) closeSync(openSync(path, 'a', FILE_MODE));
  const database = openFile(path, false);
  try {
    database.exec('PRAGMA journal_mode = WAL');
    const version = versionOf(database, path);
    if (version >= NEWEST) return undefined;
    try {
      migrate(database, path);
      return undefined;
    } catch (cause) {
      if (version > 0 && busy(cause)) return 'it waits for another process that writes to the file';
      throw cause;
    }
  } finally {
    database.close();
  }
}

/** If this throws, the caller closes the file, which rolls back the transaction. */
function migrate(database: DatabaseSync, path: string): void {
  database.exec('BEGIN IMMEDIATE');
  const version = versionOf(database, path);
  for (const sql of STEPS.slice(version)) database.exec(sql);
  database.exec(`PRAGMA user_version = ${Math.max(version, NEWEST)}; COMMIT`);
}

const COLUMNS = `
  SELECT tables.name AS "table", columns.name AS name, columns."notnull" AND columns.dflt_value IS NULL AS required
  FROM sqlite_schema AS tables JOIN pragma_table_info(tables.name) AS columns WHERE tables.type = 'table'`;

function versionOf(database: DatabaseSync, path: string): number {
  const version = Number(database.prepare('PRAGMA user_version').get()?.['user_version']);
  const why = version < NEWEST ? undefined : unfitness(database.prepare(COLUMNS).all() as unknown as Column[]);
  if (why === undefined) return version;
  if (version === NEWEST) throw tablesDiffer(sqliteUri(path), why);
  throw new WarehouseMisconfigured(
    `${sqliteUri(path)}: the schema has version ${version}, and this program knows ${NEWEST}: ${why}`,
  );
}
