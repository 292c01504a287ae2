// The schema in PostgreSQL, as a list of steps that only grows.
//
// Invariant: a step has run exactly once where events_migrations has its version: a step and its line there are one
// transaction, and the line's primary key lets one replica of several pass. A session that finds the newest version
// does nothing else, so a role that may only read and insert is enough once the schema is there.
//
// Steps are additive, so that a program works with the schema before and after each of them, and going back works: a
// new column may be null or has a default. A program refuses the schema of a later one only where its tables do not
// have what this one reads and writes (unfitness).
//
// A step waits for its lock LOCK_TRY_MS at most, because every other session waits behind it: landing and look-ups
// then go on with the schema as it is, and the caller tries again later. Only the first step, before which there is
// nothing to go on with, waits as long as any call.
//
// Replicas that start together queue up behind an advisory lock, which ends with its transaction. Engines that speak
// PostgreSQL's protocol without such locks do without: there, replicas may run into each other, and the one that was
// late looks again. Where an engine commits each CREATE by itself, IF NOT EXISTS makes a step that was cut short good.
//
// Why these column types: a body that landed is UTF-8 JSON text, which cannot hold a raw NUL, so `text` keeps it byte
// for byte and people can read it (`body::json`; `jsonb` would refuse `\u0000` and reorder members). What is
// quarantined may be any bytes: `bytea`. Names compare by their bytes, so that no locale decides which ids are one; not
// every engine knows COLLATE "C", so it is left out where the database compares bytes already.
import pg from 'pg';
import { unfitness, type Column } from '../ingest/warehouse.ts';
import { pauseMs } from '../process/backoff.ts';
import type { ClockAndRandom } from '../process/clock.ts';
import { sqlstateClass } from './sessions.ts';

/** Any constant: it only has to differ from other programs' advisory locks in the same database. */
export const LOCK_KEY = 0x1a6e57;

/** A step may rewrite a table, which takes longer than any other call. */
const STEP_TIMEOUT_MS = 600_000;
const LOCK_TRY_MS = 100;
const ATTEMPTS_MAX = 8;
const ATTEMPT_PAUSE_FIRST_MS = 50;
const ATTEMPT_PAUSE_MAX_MS = 1_000;

export interface Step {
  readonly version: number;
  /** `bytewise` is the collation clause of a column that compares bytes. */
  readonly sql: (bytewise: string) => string;
}

export const STEPS: readonly Step[] = [
  {
    version: 1,
    sql: (bytewise) => `
     CREATE TABLE IF NOT EXISTS events (
       id          text ${bytewise} PRIMARY KEY,
       type        text NOT NULL,
       producer    text ${bytewise} NOT NULL,
       accepted_at timestamptz NOT NULL,
       landed_at   timestamptz NOT NULL,
       body        text NOT NULL,
       traceparent text
     );
     CREATE INDEX IF NOT EXISTS events_landed_at ON events (landed_at);
     CREATE TABLE IF NOT EXISTS events_quarantine (
       entry          text ${bytewise} PRIMARY KEY,
       id             text ${bytewise},
       producer       text ${bytewise} NOT NULL,
       reason         text NOT NULL,
       accepted_at    timestamptz NOT NULL,
       quarantined_at timestamptz NOT NULL,
       body           bytea NOT NULL,
       traceparent    text
     );
     CREATE INDEX IF NOT EXISTS events_quarantine_id ON events_quarantine (id);
     CREATE INDEX IF NOT EXISTS events_quarantine_quarantined_at ON events_quarantine (quarantined_at, entry);
     CREATE TABLE IF NOT EXISTS ingest_audit (
       id      text PRIMARY KEY,
       at      timestamptz NOT NULL,
       actor   text NOT NULL,
       command text NOT NULL,
       what    text NOT NULL,
       changed bigint
     );`,
  },
  {
    // Of a million rows, those of a rare reason were found in 7 s, and now at once.
    version: 2,
    sql: () => `
     CREATE INDEX IF NOT EXISTS events_quarantine_code
       ON events_quarantine (split_part(reason, ':', 1), quarantined_at, entry);`,
  },
];

/** The database has another encoding than UTF8. */
export class WrongEncoding extends Error {
  constructor(found: string | undefined) {
    super(`the database has the encoding ${found}, and must have UTF8 to keep any event`);
  }
}

/** The tables were made by an older version, in a form that no step changes. */
export class OlderTables extends Error {}

const newestOf = (steps: readonly Step[]): number => steps.at(-1)?.version ?? 0;

/** The schema is that of a newer program, and this one cannot work with it. */
export class NewerSchema extends Error {
  constructor(found: number, known: number, why: string) {
    super(`the schema has version ${found}, and this program knows ${known}: ${why}`);
  }
}

/**
 * Brings the schema up to date; see Warehouse.prepare. Throws WrongEncoding, NewerSchema or OlderTables.
 */
export async function migrate(
  client: pg.PoolClient,
  { clock, random }: ClockAndRandom,
  steps: readonly Step[] = STEPS,
): Promise<string | undefined> {
  const encoding = await client.query<{ server_encoding: string }>('SHOW server_encoding');
  const encoded = encoding.rows[0]?.server_encoding;
  if (encoded !== 'UTF8') throw new WrongEncoding(encoded);
  let locking = true;
  for (let attempt = 1; ; attempt += 1) {
    const found = await schemaVersion(client, steps);
    if (found >= newestOf(steps)) return undefined;
    try {
      await runSteps(client, steps, locking, found > 0);
    } catch (cause) {
      await client.query('ROLLBACK').catch(() => undefined);
      if (locking && lacksLocks(cause)) locking = false;
      else if (found > 0 && isTimedOutLock(cause)) return `it waits for ${await holderOfLock(client)}`;
      else if (attempt < ATTEMPTS_MAX && metAnother(cause))
        await clock.sleep(pauseMs(attempt, ATTEMPT_PAUSE_FIRST_MS, ATTEMPT_PAUSE_MAX_MS, random.fraction()));
      else if (found > 0 && cause instanceof pg.DatabaseError) return `${cause.message} (SQLSTATE ${cause.code})`;
      else throw cause;
    }
  }
}

async function runSteps(
  client: pg.PoolClient,
  steps: readonly Step[],
  locking: boolean,
  hasTables: boolean,
): Promise<void> {
  await client.query('BEGIN');
  await client.query(`SELECT set_config('statement_timeout', $1, true)`, [String(STEP_TIMEOUT_MS)]);
  if (hasTables) await client.query(`SELECT set_config('lock_timeout', $1, true)`, [String(LOCK_TRY_MS)]);
  if (locking) await client.query('SELECT pg_advisory_xact_lock($1)', [LOCK_KEY]);
  await client.query(
    'CREATE TABLE IF NOT EXISTS events_migrations (version integer PRIMARY KEY, applied_at timestamptz NOT NULL)',
  );
  const done = await schemaVersion(client, steps);
  const bytewise = await bytewiseClause(client);
  for (const { version, sql } of steps) {
    if (version <= done) continue;
    await client.query({ text: sql(bytewise), query_timeout: STEP_TIMEOUT_MS } as pg.QueryConfig);
    await client.query('INSERT INTO events_migrations VALUES ($1, statement_timestamp())', [version]);
  }
  await client.query('COMMIT');
}

/** By its bytes `B` comes before `a`; by the rules of any language it comes after. */
async function bytewiseClause(client: pg.PoolClient): Promise<string> {
  const { rows } = await client.query<{ bytewise: boolean }>(`SELECT 'B'::text < 'a'::text AS bytewise`);
  return rows[0]?.bytewise === true ? '' : 'COLLATE "C"';
}

/** Of the sessions that hold a lock of the tables, the one whose transaction is the oldest. */
const HOLDER = `
  SELECT pid, application_name AS name, round(extract(epoch FROM clock_timestamp() - query_start))::float8 AS seconds
  FROM pg_locks JOIN pg_stat_activity USING (pid)
  WHERE granted AND pid <> pg_backend_pid()
    AND (relation IN (to_regclass('events'), to_regclass('events_quarantine'), to_regclass('events_migrations'))
      OR locktype = 'advisory' AND objid::bigint = $1)
  ORDER BY xact_start LIMIT 1`;

/** Text for people. An engine without these views, or a session that has just ended, gives no row. */
async function holderOfLock(client: pg.PoolClient): Promise<string> {
  const sql = { text: HOLDER, values: [LOCK_KEY] };
  const { rows } = await client
    .query<{ pid: number; name: string; seconds: number | null }>(sql)
    .catch(() => ({ rows: [] }));
  const [holder] = rows;
  if (holder === undefined) return 'a lock of another session';
  const age = holder.seconds === null ? '' : `, whose last query began ${holder.seconds} s ago`;
  return `session ${holder.pid} (${JSON.stringify(holder.name)})${age}`;
}

const isTimedOutLock = (cause: unknown): boolean => cause instanceof pg.DatabaseError && cause.code === '55P03';

/** Feature not supported, or a function that is not there. */
const lacksLocks = (cause: unknown): boolean =>
  cause instanceof pg.DatabaseError && (cause.code === '0A000' || cause.code === '42883');

/**
 * Another replica made the same at the same time: a serialization failure, a row, a table or another object that is
 * there already.
 */
const metAnother = (cause: unknown): boolean =>
  sqlstateClass(cause) === '40' ||
  (cause instanceof pg.DatabaseError && ['23505', '42P07', '42710'].includes(cause.code ?? ''));

const COLUMNS = `
  SELECT relname AS table, attname AS name, attnotnull AND NOT atthasdef AND attidentity = '' AS required
  FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
  WHERE attrelid IN (to_regclass('events'), to_regclass('events_quarantine')) AND attnum > 0 AND NOT attisdropped`;

/** The newest step that has run; 0 in a database that has none. Throws NewerSchema or OlderTables. */
export async function schemaVersion(client: Pick<pg.PoolClient, 'query'>, steps: readonly Step[]): Promise<number> {
  const tables = await client.query<{ found: boolean; byMonth: boolean }>(
    `SELECT to_regclass('events_migrations') IS NOT NULL AS found, to_regclass('events_ids') IS NOT NULL AS "byMonth"`,
  );
  if (tables.rows[0]?.found !== true) return 0;
  if (tables.rows[0].byMonth) throw new OlderTables('events is partitioned by month, and this version needs one table');
  const newest = await client.query<{ version: number | null }>(
    'SELECT max(version) AS version FROM events_migrations',
  );
  const found = newest.rows[0]?.version ?? 0;
  const known = newestOf(steps);
  if (found < known) return found;
  const why = unfitness((await client.query<Column & pg.QueryResultRow>(COLUMNS)).rows);
  if (why === undefined) return found;
  throw found > known ? new NewerSchema(found, known, why) : new OlderTables(why);
}
