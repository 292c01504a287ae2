// Events in monthly partitions (INGEST_WAREHOUSE_PARTITIONS=month): old ones are removed by DROP, and not row by row.
//
// A partition `events_2026_11` has the rows that landed in that month of UTC. No primary key reaches over partitions,
// so ids are in a table of their own, `events_ids`, each with the time of landing, by which its row is found.
//
// Invariant: a row is written in one transaction with its line in `events_ids`, whose primary key decides which event
// of an id is the row. A line whose row is gone, because its month was removed, holds up no new event: landing removes
// the line.
//
// Months are made a year ahead, by whichever consumer sees first that one is missing; landing needs no right for that.
// None is made before the oldest one: a clock that is so far behind would land events where retention removes them.
import pg from 'pg';
import type { Clock } from '../process/clock.ts';
import { messageOf } from '../process/message-of.ts';
import { LOCK_KEY } from './migrations.ts';

const AHEAD = 12;
/** Between two tries to make the next month, where a try failed. */
const RETRY_MS = 3_600_000;

/** Whether a database has its events by months; false while it has no tables. `ask` runs one query. */
export type ByMonth = () => Promise<boolean>;
export function byMonthOf(ask: (sql: string) => Promise<{ readonly rows: { readonly months: boolean }[] }>): ByMonth {
  let known: boolean | undefined;
  const sql = `SELECT relkind = 'p' AS months FROM pg_class WHERE oid = to_regclass('events')`;
  return async () => (known ??= (await ask(sql)).rows[0]?.months) ?? false;
}

/** The condition for the row of an id, which is a parameter. */
export const whereId = (id: string, byMonth: boolean): string =>
  byMonth ? `id = ${id} AND landed_at = (SELECT landed_at FROM events_ids WHERE id = ${id})` : `id = ${id}`;

/** The month of a time, as names of partitions have it. These texts sort as months do. */
export const monthOf = (ms: number): string => new Date(ms).toISOString().slice(0, 7).replace('-', '_');

/** The first moment of a month, as text that both PostgreSQL and Date read. */
export const beginningOf = (month: string): string => `${month.replace('_', '-')}-01T00:00:00Z`;

/** The month so many months later. */
export const later = (month: string, months: number): string => {
  const date = new Date(beginningOf(month));
  return monthOf(date.setUTCMonth(date.getUTCMonth() + months));
};

/** The month of now has no partition, and this program cannot make it. The message is for people. */
export class NoMonth extends Error {
  override readonly name = 'NoMonth';
}

/** Rows that no partition takes: of the class of errors that speak of the data, and yet not for what they hold. */
export const lacksMonth = (cause: unknown): boolean =>
  cause instanceof pg.DatabaseError && cause.code === '23514' && cause.constraint === undefined;

/** The months that are there, the oldest first. */
export const MONTHS = `
  SELECT right(relname, 7) AS month FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
  WHERE inhparent = to_regclass('events') AND relname ~ '^events_[0-9]{4}_[0-9]{2}$' ORDER BY 1`;

type Client = Pick<pg.PoolClient, 'query'>;

async function monthsOf(client: Client): Promise<ReadonlySet<string>> {
  return new Set((await client.query<{ month: string }>(MONTHS)).rows.map(({ month }) => month));
}

/** The months of a database, as one consumer knows them. */
export class Months {
  readonly #pool: pg.Pool;
  readonly #clock: Clock;
  #there: ReadonlySet<string> = new Set();
  #lookAtMs = Number.NEGATIVE_INFINITY;

  constructor(pool: pg.Pool, clock: Clock) {
    this.#pool = pool;
    this.#clock = clock;
  }

  /** Resolves once there is a partition for rows that land now; see `look` for what it rejects with. */
  async ready(nowMs: number): Promise<void> {
    const now = monthOf(nowMs);
    const known = this.#there.has(now);
    if (known && (this.#there.has(later(now, 1)) || this.#clock.ms() < this.#lookAtMs)) return;
    await this.look(nowMs);
  }

  /**
   * Makes the months that are missing. Resolves with why the next one cannot be made, where the month of now is there.
   * Rejects with NoMonth, or with why the database is away.
   */
  async look(nowMs: number): Promise<string | undefined> {
    const now = monthOf(nowMs);
    this.#lookAtMs = this.#clock.ms() + RETRY_MS;
    this.#there = await monthsOf(this.#pool);
    if (missing(this.#there, now).length === 0) return undefined;
    try {
      this.#there = await makeMonths(this.#pool, now);
      return undefined;
    } catch (cause) {
      const why = messageOf(cause);
      if (this.#there.has(now)) return this.#there.has(later(now, 1)) ? undefined : noNext(now, why);
      const lacksRight = cause instanceof pg.DatabaseError && cause.code === '42501';
      throw lacksRight ? new NoMonth(`events has no partition events_${now}, and cannot get it: ${why}`) : cause;
    }
  }

  /** A partition was not there any more. */
  forget(): void {
    this.#there = new Set();
  }
}

/** Behind the lock of migrations, so that consumers that start together make each month once. */
async function makeMonths(pool: pg.Pool, now: string): Promise<ReadonlySet<string>> {
  const client = await pool.connect();
  let broken = true;
  try {
    await client.query('BEGIN');
    await client.query('SELECT pg_advisory_xact_lock($1)', [LOCK_KEY]);
    for (const month of missing(await monthsOf(client), now)) await client.query(create(month));
    const there = await monthsOf(client);
    await client.query('COMMIT');
    broken = false;
    return there;
  } catch (cause) {
    await client.query('ROLLBACK').then(
      () => (broken = false),
      () => undefined,
    );
    throw cause;
  } finally {
    client.release(broken);
  }
}

const noNext = (now: string, why: string): string => `the partition events_${later(now, 1)} cannot be made: ${why}`;

/** Throws NoMonth where all months are later than now. */
function missing(there: ReadonlySet<string>, now: string): readonly string[] {
  const [oldest] = there;
  if (oldest !== undefined && now < oldest)
    throw new NoMonth(`the clock says ${now}, and the oldest partition is events_${oldest}: is the clock behind?`);
  // The clock of another consumer may be a little behind.
  const first = oldest === undefined ? -1 : 0;
  return Array.from({ length: AHEAD + 1 - first }, (_, at) => later(now, first + at)).filter(
    (month) => !there.has(month),
  );
}

const create = (month: string): string =>
  `CREATE TABLE IF NOT EXISTS events_${month} PARTITION OF events
   FOR VALUES FROM ('${beginningOf(month)}') TO ('${beginningOf(later(month, 1))}')`;
