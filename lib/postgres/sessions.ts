// The sessions of a warehouse with its PostgreSQL server: a pool that never grows past its size, on either side.
//
// Invariant: the server gives a statement up before this side does. A statement that waits (for a lock, for a disk)
// ends in its session, and the session serves the next one. Were this side first, it would drop the connection, the
// server would keep the session until its statement ended, and each try behind a long lock would add one, up to
// `max_connections`.
//
// A session commits to disk: `synchronous_commit` is turned on where the server's or the role's default is `off` or
// `local`.
//
// Limits: a call ends within `callTimeoutMs` plus `connectTimeoutMs`. A frozen or unreachable server is "away", never a
// hang.
import pg from 'pg';
import type { ClockAndRandom } from '../process/clock.ts';
import { pauseMs } from '../process/backoff.ts';

/** Of `callTimeoutMs`: a statement, and the part of it that may go into waiting for a lock. */
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

const SET_UP = `
  SELECT set_config('statement_timeout', $1, false), set_config('lock_timeout', $2, false),
    CASE WHEN current_setting('synchronous_commit', true) IN ('off', 'local')
      THEN set_config('synchronous_commit', 'on', false) END`;

export function openSessions({ uri, connectionsMax, connectTimeoutMs, callTimeoutMs }: SessionsOptions): pg.Pool {
  const limits = [STATEMENT_SHARE, LOCK_SHARE].map((share) => String(Math.floor(callTimeoutMs * share)));
  const pool = new pg.Pool({
    connectionString: uri,
    max: connectionsMax,
    connectionTimeoutMillis: connectTimeoutMs,
    query_timeout: callTimeoutMs,
    keepAlive: true,
    application_name: 'ingest',
    verify: (client, done) => void client.query(SET_UP, limits).then(() => done(), done),
  });
  // A connection that breaks while it is idle is replaced at the next call, which tells if the server is unavailable.
  // One that breaks in use rejects its query, and raises the same error as an event, which would end the process.
  pool.on('error', () => undefined);
  pool.on('connect', (client) => void client.on('error', () => undefined));
  return pool;
}

/** Two letters of SQLSTATE (PostgreSQL manual, appendix A); undefined for what no server said. */
export const sqlstateClass = (cause: unknown): string | undefined =>
  cause instanceof pg.DatabaseError ? cause.code?.slice(0, 2) : undefined;

/**
 * Runs one transaction, and again where the server took it back for another one's sake (class 40: serialization
 * failure, deadlock). That is no outage: the same transaction may pass at once. Rejects with the last error after
 * ATTEMPTS_MAX.
 */
export async function transacted<T>({ clock, random }: ClockAndRandom, work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work();
    } catch (cause) {
      if (sqlstateClass(cause) !== '40' || attempt === ATTEMPTS_MAX) throw cause;
      // The first one at once: the other transaction is done by now.
      const pause = pauseMs(attempt - 1, ATTEMPT_PAUSE_FIRST_MS, ATTEMPT_PAUSE_MAX_MS, random.fraction());
      if (attempt > 1) await clock.sleep(pause);
    }
  }
}

/**
 * Whether the server or this side ended a call for the time that it took. A wait for a lock is distinguished (55P03).
 */
export function timedOut(cause: unknown): boolean {
  if (cause instanceof pg.DatabaseError) return cause.code === '57014';
  return cause instanceof Error && cause.message === 'Query read timeout';
}
