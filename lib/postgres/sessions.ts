// The pool of sessions with a PostgreSQL server.
//
// Invariant: the server cancels a statement before this side gives up, so the session can serve the next call. If
// this side gave up first, the server would keep the session until the statement finished, and each retry would add
// another session.
//
// A session turns on `synchronous_commit` if the default is `off` or `local`, so that landed events are durable. A
// query finishes within `callTimeoutMs` plus `connectTimeoutMs`, even if the server is frozen.
import pg from 'pg';
import { tablesDiffer, WarehouseMisconfigured } from '../ingest/warehouse.ts';
import type { ClockAndRandom } from '../process/clock.ts';
import { pauseMs } from '../process/backoff.ts';
import { bindsChannel, maskedUri } from '../process/uri.ts';

/** Shares of `callTimeoutMs` for one statement and for its wait for a lock. */
const STATEMENT_SHARE = 0.9;
const LOCK_SHARE = 0.8;

const ATTEMPTS_MAX = 6;
const ATTEMPT_PAUSE_FIRST_MS = 10;
const ATTEMPT_PAUSE_MAX_MS = 160;

export interface SessionsOptions {
  readonly uri: string;
  readonly connectionsMax: number;
  readonly connectTimeoutMs: number;
  readonly callTimeoutMs: number;
}

/** Settings of the role or the database must not change what a query returns. */
const PINNED = {
  extra_float_digits: '1',
  bytea_output: 'hex',
  DateStyle: 'ISO, YMD',
  TimeZone: 'UTC',
  standard_conforming_strings: 'on',
};

const SET_UP = `
  SELECT set_config('statement_timeout', $1, false), set_config('lock_timeout', $2, false),
    ${Object.entries(PINNED)
      .map(([name, value]) => `set_config('${name}', '${value}', false)`)
      .join(', ')},
    CASE WHEN current_setting('synchronous_commit', true) IN ('off', 'local')
      THEN set_config('synchronous_commit', 'on', false) END`;

/** The code of a quarantine reason. An index uses the same expression. */
export const CODE = `split_part(reason, ':', 1)`;

/** An array, so that the primary key's index is used even without statistics. */
export const isIn = (column: string, parameter: string): string =>
  `${column} = ANY (ARRAY (SELECT json_array_elements_text(${parameter}::json)))`;

export const unixMs = (column: string): string => `round(extract(epoch FROM ${column}) * 1000)::float8`;

/** The message of pg's error. */
export const READ_TIMEOUT = 'Query read timeout';
/** Messages of pg and its pool for a server that is silent. People read one reason. */
const SILENCES = [
  READ_TIMEOUT,
  'timeout expired',
  'timeout exceeded when trying to connect',
  'Connection terminated due to connection timeout',
];
export const SILENT = 'it does not answer';

/** Queries have pg's time limit, which needs a timer for each. COPY has its own: see copyEvents. */
const sessionWith = (callTimeoutMs: number) =>
  class extends pg.Client {
    override query(...[query, ...rest]: never[]): never {
      const limited = typeof query === 'string' ? { text: query, query_timeout: callTimeoutMs } : query;
      return super.query(limited as never, ...rest) as never;
    }
  };

export function openSessions({ uri, connectionsMax, connectTimeoutMs, callTimeoutMs }: SessionsOptions): pg.Pool {
  const limits = [STATEMENT_SHARE, LOCK_SHARE].map((share) => String(Math.floor(callTimeoutMs * share)));
  const pool = new pg.Pool({
    connectionString: uri,
    enableChannelBinding: bindsChannel(uri),
    max: connectionsMax,
    connectionTimeoutMillis: connectTimeoutMs,
    Client: sessionWith(callTimeoutMs),
    keepAlive: true,
    application_name: 'ingest',
    verify: (client, done) => void client.query(SET_UP, limits).then(() => done(), done),
  });
  // The pool replaces an idle connection that broke. A connection that breaks during use rejects its query and also
  // emits `error`, which would end the process if nothing listened.
  pool.on('error', () => undefined);
  pool.on('connect', (client) => void client.on('error', () => undefined));
  return pool;
}

/** The server or the database cannot be used as it is. */
export class Unusable extends Error {}

/** The tables have an older form that no step migrates. */
export class OlderTables extends Error {}

export function assertUtf8(encoding: string | undefined): void {
  if (encoding === 'UTF8') return;
  throw new Unusable(`the database has the encoding ${encoding}, and must have UTF8 to store every event`);
}

// Classes of SQLSTATE (PostgreSQL manual, appendix A): invalid authorization, invalid catalog name (database),
// invalid schema name.
const MISCONFIGURED_CLASSES = new Set(['28', '3D', '3F']);
/** Insufficient privilege; undefined or other tables, columns, functions and types; and those in WORDS. */
const MISCONFIGURED = new Set(['42501', '42703', '42804', '42883', '42P01', '42P10']);
const WORDS: Readonly<Record<string, string>> = {
  '28P01': 'the server refused the password: ',
  '42P01': 'a table is missing; a consumer that starts on an empty database creates all: ',
  '42P10': 'a table lacks its primary key, which prevents a second row: ',
};

/** Converts `cause` to a WarehouseMisconfigured if the configuration is at fault, and gives silence one message. */
export function misconfigured(cause: unknown, uri: string): unknown {
  if (cause instanceof OlderTables) return tablesDiffer(maskedUri(uri), cause.message);
  if (cause instanceof Unusable) return new WarehouseMisconfigured(`${maskedUri(uri)}: ${cause.message}`, { cause });
  if (cause instanceof Error && SILENCES.includes(cause.message)) return new Error(SILENT, { cause });
  if (!(cause instanceof pg.DatabaseError) || cause.code === undefined) return cause;
  if (!MISCONFIGURED_CLASSES.has(cause.code.slice(0, 2)) && !MISCONFIGURED.has(cause.code)) return cause;
  const what = WORDS[cause.code] ?? '';
  return new WarehouseMisconfigured(`${maskedUri(uri)}: ${what}${cause.message} (SQLSTATE ${cause.code})`, { cause });
}

/** Runs `work` in one session, and closes the session if that fails. */
export async function inSession<T>(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  let broken = true;
  try {
    const result = await work(client);
    broken = false;
    return result;
  } finally {
    client.release(broken);
  }
}

/** Rejects if two connections have one session, as PgBouncer's transaction and statement modes do. */
export async function assertOwnSessions(pool: pg.Pool): Promise<void> {
  if (pool.options.max < 2) return;
  const idOf = async (client: pg.PoolClient): Promise<number | undefined> =>
    (await client.query<{ id: number }>('SELECT pg_backend_pid() AS id')).rows[0]?.id;
  if (await inSession(pool, async (one) => (await inSession(pool, idOf)) === (await idOf(one))))
    throw new Unusable(
      'a pooler shares sessions among clients, so their time limits and settings do not hold: use its session mode',
    );
}

export const sqlstateClass = (cause: unknown): string | undefined =>
  cause instanceof pg.DatabaseError ? cause.code?.slice(0, 2) : undefined;

/** Runs a transaction, up to ATTEMPTS_MAX times if it fails with a serialization failure or a deadlock (class 40). */
export async function transacted<T>({ clock, random }: ClockAndRandom, work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work();
    } catch (cause) {
      if (sqlstateClass(cause) !== '40' || attempt === ATTEMPTS_MAX) throw cause;
      // The first retry is immediate, because the other transaction has finished.
      const pause = pauseMs(attempt - 1, ATTEMPT_PAUSE_FIRST_MS, ATTEMPT_PAUSE_MAX_MS, random.fraction());
      if (attempt > 1) await clock.sleep(pause);
    }
  }
}

/** True if a call took too long. Waiting too long for a lock (55P03) is not included. */
export function timedOut(cause: unknown): boolean {
  if (cause instanceof pg.DatabaseError) return cause.code === '57014';
  return cause instanceof Error && cause.message === READ_TIMEOUT;
}
