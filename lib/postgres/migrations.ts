// Makes the schema in PostgreSQL in steps. A step and its row in events_migrations are one transaction, so each step
// runs once. If the newest version is present, nothing else happens, so a role that can only read and insert, and
// delete from `events_quarantine`, is sufficient.
//
// Steps are additive, so older programs work with newer schemas and vice versa. A program refuses a newer schema only
// if its tables lack a column or require an unknown one (unfitness). Engines without advisory locks work too: a
// replica that loses a race tries again.
import pg from 'pg';
import { unfitness, type Column } from '../ingest/warehouse.ts';
import { schemaSteps } from '../ingest/warehouse-tables.ts';
import { pauseMs } from '../process/backoff.ts';
import type { ClockAndRandom } from '../process/clock.ts';
import { assertUtf8, CODE, OlderTables, sqlstateClass, Unusable } from './sessions.ts';

/** Arbitrary, but must differ from other programs' advisory locks in the same database. */
export const LOCK_KEY = 0x1a6e57;

/** Long, because a step may rewrite a table. */
const STEP_TIMEOUT_MS = 600_000;
/** Short, because all other sessions queue behind a waiting step. The caller tries again later. */
const LOCK_TRY_MS = 100;
const ATTEMPTS_MAX = 8;
const ATTEMPT_PAUSE_FIRST_MS = 50;
const ATTEMPT_PAUSE_MAX_MS = 1_000;

const TYPES = { exists: 'IF NOT EXISTS', time: 'timestamptz', bytes: 'bytea', count: 'bigint', options: '' };

/** `bytewise` makes a column compare its texts by bytes. */
const stepsOf = (bytewise: string): readonly string[] =>
  schemaSteps({ ...TYPES, name: `text ${bytewise}`, producer: `text ${bytewise}` }, CODE);
const NEWEST = stepsOf('').length;

/** Brings the schema up to date; see Warehouse.prepare. Rejects with Unusable or OlderTables. */
export async function migrate(client: pg.PoolClient, { clock, random }: ClockAndRandom): Promise<string | undefined> {
  const encoding = await client.query<{ server_encoding: string }>('SHOW server_encoding');
  assertUtf8(encoding.rows[0]?.server_encoding);
  let hasLocks = true;
  for (let attempt = 1; ; attempt += 1) {
    const version = await schemaVersion(client);
    const hasTables = version > 0;
    if (version >= NEWEST) return undefined;
    try {
      await runSteps(client, hasLocks, hasTables);
    } catch (cause) {
      await client.query('ROLLBACK').catch(() => undefined);
      if (hasLocks && lacksLocks(cause)) hasLocks = false;
      else if (hasTables && isTimedOutLock(cause)) return `it waits for ${await holderOfLock(client)}`;
      else if (attempt < ATTEMPTS_MAX && metAnother(cause))
        await clock.sleep(pauseMs(attempt, ATTEMPT_PAUSE_FIRST_MS, ATTEMPT_PAUSE_MAX_MS, random.fraction()));
      else if (hasTables && cause instanceof pg.DatabaseError) return `${cause.message} (SQLSTATE ${cause.code})`;
      else throw cause;
    }
  }
}

async function runSteps(client: pg.PoolClient, hasLocks: boolean, hasTables: boolean): Promise<void> {
  await client.query('BEGIN');
  await client.query(`SELECT set_config('statement_timeout', $1, true)`, [String(STEP_TIMEOUT_MS)]);
  if (hasTables) await client.query(`SELECT set_config('lock_timeout', $1, true)`, [String(LOCK_TRY_MS)]);
  if (hasLocks) await client.query('SELECT pg_advisory_xact_lock($1)', [LOCK_KEY]);
  await client.query(
    'CREATE TABLE IF NOT EXISTS events_migrations (version integer PRIMARY KEY, applied_at timestamptz NOT NULL)',
  );
  const version = await schemaVersion(client);
  for (const [at, text] of stepsOf(await bytewiseClause(client)).entries()) {
    if (at < version) continue;
    await client.query({ text, query_timeout: STEP_TIMEOUT_MS } as pg.QueryConfig);
    await client.query('INSERT INTO events_migrations VALUES ($1, statement_timestamp())', [at + 1]);
  }
  await client.query('COMMIT');
}

/** By bytes, `B` sorts before `a`; in any language it sorts after. Not every engine supports COLLATE "C". */
async function bytewiseClause(client: pg.PoolClient): Promise<string> {
  const { rows } = await client.query<{ bytewise: boolean }>(`SELECT 'B'::text < 'a'::text AS bytewise`);
  return rows[0]?.bytewise === true ? '' : 'COLLATE "C"';
}

const HOLDER = `
  SELECT pid, application_name AS name, round(extract(epoch FROM clock_timestamp() - query_start))::float8 AS seconds
  FROM pg_locks JOIN pg_stat_activity USING (pid)
  WHERE granted AND pid <> pg_backend_pid()
    AND (relation IN (to_regclass('events'), to_regclass('events_quarantine'), to_regclass('events_migrations'))
      OR locktype = 'advisory' AND objid::bigint = $1)
  ORDER BY xact_start LIMIT 1`;

/** Returns text for an operator. There is no row if the session has ended or the engine lacks these views. */
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

/** The engine has no advisory locks: feature not supported, or undefined function. */
const lacksLocks = (cause: unknown): boolean =>
  cause instanceof pg.DatabaseError && (cause.code === '0A000' || cause.code === '42883');

/** Another replica ran the same step: a serialization failure, or an object that already exists. */
const metAnother = (cause: unknown): boolean =>
  sqlstateClass(cause) === '40' ||
  (cause instanceof pg.DatabaseError && ['23505', '42P07', '42710'].includes(cause.code ?? ''));

const COLUMNS = `
  SELECT relname AS table, attname AS name, attnotnull AND NOT atthasdef AND attidentity = '' AS required
  FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
  WHERE attrelid IN (to_regclass('events'), to_regclass('events_quarantine')) AND attnum > 0 AND NOT attisdropped`;

/** Returns the newest version, or 0 in an empty database. Rejects with Unusable or OlderTables. */
export async function schemaVersion(client: Pick<pg.PoolClient, 'query'>): Promise<number> {
  const tables = await client.query<{ exists: boolean; byMonth: boolean }>(
    `SELECT to_regclass('events_migrations') IS NOT NULL AS "exists",
      to_regclass('events_ids') IS NOT NULL AS "byMonth"`,
  );
  if (tables.rows[0]?.exists !== true) return 0;
  if (tables.rows[0].byMonth) throw new OlderTables('events is partitioned by month, and this version needs one table');
  const newest = await client.query<{ version: number | null }>(
    'SELECT max(version) AS version FROM events_migrations',
  );
  const version = newest.rows[0]?.version ?? 0;
  if (version < NEWEST) return version;
  const why = unfitness((await client.query<Column & pg.QueryResultRow>(COLUMNS)).rows);
  if (why === undefined) return version;
  if (version === NEWEST) throw new OlderTables(why);
  throw new Unusable(`the schema has version ${version}, and this program knows ${NEWEST}: ${why}`);
}
