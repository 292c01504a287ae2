// The schema in PostgreSQL, as a list of steps that only grows.
//
// Invariant: step n has run exactly once where events_migrations says n or more: a step and its line there are one
// transaction, and the line's primary key lets one replica of several pass. A session that finds the newest version
// does nothing else, so a role that may only read and insert is enough once the schema stands.
//
// Replicas that start together queue up behind an advisory lock, which ends with its transaction. Engines that speak
// PostgreSQL's protocol without such locks do without: there, replicas may run into each other, and the one that was
// late looks again. Where an engine commits each CREATE by itself, IF NOT EXISTS makes a step that was cut short good.
//
// Why these column types: a body that landed is UTF-8 JSON text, which cannot hold a raw NUL, so `text` keeps it byte
// for byte and people can read it (`body::json`; `jsonb` would refuse `\u0000` and reorder members). What is
// quarantined may be any bytes: `bytea`. Names compare by their bytes, so that no locale decides which ids are one; not
// every engine knows COLLATE "C", so it is left out where the database compares bytes already.
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { pauseMs } from '../process/backoff.ts';
import { sqlstateClass } from './sessions.ts';

/** Any constant: it only has to differ from other programs' advisory locks in the same database. */
export const LOCK_KEY = 0x1a6e57;

/** A step may rewrite a table, which takes longer than any other call. */
const STEP_TIMEOUT_MS = 600_000;
const ATTEMPTS_MAX = 8;
const ATTEMPT_PAUSE_FIRST_MS = 50;
const ATTEMPT_PAUSE_MAX_MS = 1_000;

/** `bytewise` is the collation clause of a column that compares bytes. */
type Step = (bytewise: string) => string;

const STEPS: readonly Step[] = [
  (bytewise) => `
   CREATE TABLE IF NOT EXISTS events (
     id          text ${bytewise} PRIMARY KEY,
     type        text NOT NULL,
     producer    text ${bytewise} NOT NULL,
     accepted_at timestamptz NOT NULL,
     landed_at   timestamptz NOT NULL,
     body        text NOT NULL
   );
   CREATE TABLE IF NOT EXISTS events_quarantine (
     entry          text ${bytewise} PRIMARY KEY,
     id             text ${bytewise},
     producer       text ${bytewise} NOT NULL,
     reason         text NOT NULL,
     accepted_at    timestamptz NOT NULL,
     quarantined_at timestamptz NOT NULL,
     body           bytea NOT NULL
   );
   CREATE INDEX IF NOT EXISTS events_quarantine_id ON events_quarantine (id);`,
  // An entry's name is unique in its stream only. From here on the queue and the stream stand before it; of the rows
  // that are there it is known that they come from the stream `ingest`, and not of which queue.
  () => `UPDATE events_quarantine SET entry = 'unknown/ingest/' || entry WHERE position('/' IN entry) = 0;`,
  () => `
   ALTER TABLE events ADD COLUMN IF NOT EXISTS traceparent text;
   ALTER TABLE events_quarantine ADD COLUMN IF NOT EXISTS traceparent text;`,
];

/** The database has another encoding than UTF8. */
export class WrongEncoding extends Error {
  constructor(found: string | undefined) {
    super(`the database has the encoding ${found}, and must have UTF8 to keep any event`);
  }
}

/** How many steps this program knows. */
export const STEPS_COUNT = STEPS.length;

/** The schema is that of a newer program. */
export class NewerSchema extends Error {
  constructor(found: number) {
    super(`the schema has version ${found}, and this program knows ${STEPS_COUNT}`);
  }
}

/** Brings the schema up to date. Throws WrongEncoding or NewerSchema. */
export async function migrate(client: pg.PoolClient): Promise<void> {
  const encoding = await client.query<{ server_encoding: string }>('SHOW server_encoding');
  const found = encoding.rows[0]?.server_encoding;
  if (found !== 'UTF8') throw new WrongEncoding(found);
  let locking = true;
  for (let attempt = 1; (await schemaVersion(client)) !== STEPS_COUNT; attempt += 1) {
    try {
      await runSteps(client, locking);
    } catch (cause) {
      await client.query('ROLLBACK').catch(() => undefined);
      if (locking && lacksLocks(cause)) locking = false;
      else if (attempt === ATTEMPTS_MAX || !metAnother(cause)) throw cause;
      else await delay(pauseMs(attempt, ATTEMPT_PAUSE_FIRST_MS, ATTEMPT_PAUSE_MAX_MS));
    }
  }
}

async function runSteps(client: pg.PoolClient, locking: boolean): Promise<void> {
  await client.query('BEGIN');
  if (locking) await client.query('SELECT pg_advisory_xact_lock($1)', [LOCK_KEY]);
  await client.query(`SELECT set_config('statement_timeout', $1, true)`, [String(STEP_TIMEOUT_MS)]);
  await client.query(
    'CREATE TABLE IF NOT EXISTS events_migrations (version integer PRIMARY KEY, applied_at timestamptz NOT NULL)',
  );
  const done = await schemaVersion(client);
  const bytewise = await bytewiseClause(client);
  for (const [at, step] of STEPS.entries()) {
    if (at < done) continue;
    await client.query({ text: step(bytewise), query_timeout: STEP_TIMEOUT_MS } as pg.QueryConfig);
    await client.query('INSERT INTO events_migrations VALUES ($1, statement_timestamp())', [at + 1]);
  }
  await client.query('COMMIT');
}

/** By its bytes `B` comes before `a`; by the rules of any language it comes after. */
async function bytewiseClause(client: pg.PoolClient): Promise<string> {
  const { rows } = await client.query<{ bytewise: boolean }>(`SELECT 'B'::text < 'a'::text AS bytewise`);
  return rows[0]?.bytewise === true ? '' : 'COLLATE "C"';
}

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

/** The newest step that has run; 0 in a database that has none. Throws NewerSchema. */
export async function schemaVersion(client: Pick<pg.PoolClient, 'query'>): Promise<number> {
  const table = await client.query<{ found: boolean }>(`SELECT to_regclass('events_migrations') IS NOT NULL AS found`);
  if (table.rows[0]?.found !== true) return 0;
  const newest = await client.query<{ version: number | null }>(
    'SELECT max(version) AS version FROM events_migrations',
  );
  const found = newest.rows[0]?.version ?? 0;
  if (found > STEPS_COUNT) throw new NewerSchema(found);
  return found;
}
