// Removes old rows from PostgreSQL; see Pruning in lib/ingest/warehouse.ts.
//
// Monthly partitions (months.ts): the oldest month is detached, which takes its rows out of `events` in one step; its
// ids are freed some at a time, and its table is dropped. One whose ids were not all freed, because a program stopped,
// is found by its name. A month that is only partly old stays. Events of one type are removed row by row.
//
// Keys are given to DELETE as an array, so that it finds them by the primary key whatever the planner knows of the
// table; a range of rows is given by its ends, so that the planner sees that it is small.
import pg from 'pg';
import { PRUNED_TABLES, type PruneCursor, type Pruned, type Pruning } from '../ingest/warehouse.ts';
import { beginningOf, later, monthOf, MONTHS } from './months.ts';

export type Query = <R extends pg.QueryResultRow>(sql: string, values: unknown[]) => Promise<pg.QueryResult<R>>;

/** Before all rows. */
const BEGINNING: PruneCursor = ['-infinity', ''];

/** As for a migration: every other session waits behind this lock. */
const LOCK_TRY_MS = 100;
const ENDED: Pruned = { removed: 0, next: undefined };

/** One step, by `query`. */
export function prune(
  query: Query,
  byMonth: boolean,
  nowMs: number,
  pruning: Pruning,
  from: PruneCursor | undefined,
  limit: number,
): Promise<Pruned> {
  if (!byMonth || pruning.table !== 'events') return pruneRows(query, pruning, from ?? BEGINNING, limit);
  const { beforeMs, type } = pruning;
  return type === undefined
    ? pruneMonths(query, pruneBound(pruning, byMonth, nowMs), from ?? BEGINNING, limit)
    : pruneTypeByMonth(query, beforeMs, type, from ?? BEGINNING, limit);
}

async function pruneRows(
  query: Query,
  { table, beforeMs, type }: Pruning,
  from: PruneCursor,
  limit: number,
): Promise<Pruned> {
  const { name, at, key } = PRUNED_TABLES[table];
  const ofType = type === undefined ? '' : 'WHERE type = $5';
  const sql = `
    WITH page AS (
      SELECT ${at} AS at, ${key} AS key${type === undefined ? '' : ', type'} FROM ${name}
      WHERE ${at} < to_timestamp($1::float8 / 1000)
        AND ${at} >= $2::timestamptz AND (${at}, ${key}) > ($2::timestamptz, $3)
      ORDER BY ${at}, ${key} LIMIT $4
    ), gone AS (
      DELETE FROM ${name} WHERE ${key} = ANY (ARRAY (SELECT key FROM page ${ofType})) RETURNING 1
    )
    SELECT at::text AS at, key, (SELECT count(*) FROM gone)::int AS removed
    FROM page ORDER BY page.at DESC, key DESC LIMIT 1`;
  const values = [beforeMs, ...from, limit, ...(type === undefined ? [] : [type])];
  const [row] = (await query<{ at: string; key: string; removed: number }>(sql, values)).rows;
  return row === undefined ? ENDED : { removed: row.removed, next: [row.at, row.key] };
}

/** The time before which `pruning` removes rows: of events by month, the beginning of a month. */
export function pruneBound({ table, beforeMs, type }: Pruning, byMonth: boolean, nowMs: number): number {
  if (!byMonth || table !== 'events' || type !== undefined) return beforeMs;
  // The month of now stays: events land in it.
  return Date.parse(beginningOf(monthOf(Math.min(beforeMs, nowMs))));
}

/** One step, of the months before `beforeMs`. */
async function pruneMonths(query: Query, beforeMs: number, from: PruneCursor, limit: number): Promise<Pruned> {
  try {
    for (let after = from; ; after = BEGINNING) {
      const month = (await firstOf(query, DETACHED)) ?? (await detachOldest(query, monthOf(beforeMs)));
      if (month === undefined) return ENDED;
      const table = `events_removed_${month}`;
      const page = await pageOf(query, table, Number.POSITIVE_INFINITY, after, limit);
      const removed =
        page === undefined ? 0 : await count(query, freeIds(table), [...after, ...page.end, endOf(month)]);
      if (page?.rows === limit) return { removed, next: page.end };
      await query(`DROP TABLE IF EXISTS ${table}`, []);
      // A month without rows does not count as a step.
      if (removed > 0) return { removed, next: BEGINNING };
    }
  } catch (cause) {
    // Another program has detached the month, or dropped it, in between.
    if (cause instanceof pg.DatabaseError && cause.code === '42P01') return ENDED;
    throw cause;
  }
}

/** One step, of the rows of one type. */
async function pruneTypeByMonth(
  query: Query,
  beforeMs: number,
  type: string,
  from: PruneCursor,
  limit: number,
): Promise<Pruned> {
  const page = await pageOf(query, 'events', beforeMs, from, limit);
  if (page === undefined) return ENDED;
  const removed = await count(query, REMOVE_TYPE, [...from, ...page.end, type]);
  return { removed, next: page.end };
}

const DETACHED = `
  SELECT right(relname, 7) AS month FROM pg_class
  WHERE relname ~ '^events_removed_[0-9]{4}_[0-9]{2}$' AND relkind = 'r' AND pg_table_is_visible(oid) ORDER BY 1`;

async function firstOf(query: Query, sql: string): Promise<string | undefined> {
  return (await query<{ month: string }>(`${sql} LIMIT 1`, [])).rows[0]?.month;
}

/** Detaches the oldest month, where it is before `before`, and gives it. */
async function detachOldest(query: Query, before: string): Promise<string | undefined> {
  const oldest = await firstOf(query, MONTHS);
  if (oldest === undefined || oldest >= before) return undefined;
  // Several statements in one message are one transaction.
  await query(
    `SELECT set_config('lock_timeout', '${LOCK_TRY_MS}', true);
     ALTER TABLE events DETACH PARTITION events_${oldest};
     ALTER TABLE events_${oldest} RENAME TO events_removed_${oldest}`,
    [],
  );
  return oldest;
}

interface Page {
  readonly rows: number;
  readonly end: PruneCursor;
}

/** The next `limit` rows after `from`; undefined where there are none. */
async function pageOf(
  query: Query,
  table: string,
  beforeMs: number,
  from: PruneCursor,
  limit: number,
): Promise<Page | undefined> {
  const sql = `
    SELECT landed_at::text AS at, id, (count(*) OVER ())::int AS rows FROM (
      SELECT landed_at, id FROM ${table}
      WHERE landed_at < to_timestamp($1::float8 / 1000)
        AND landed_at >= $2::timestamptz AND (landed_at, id) > ($2::timestamptz, $3)
      ORDER BY landed_at, id LIMIT $4) AS page
    ORDER BY landed_at DESC, id DESC LIMIT 1`;
  const values = [beforeMs, ...from, limit];
  const [row] = (await query<{ at: string; id: string; rows: number }>(sql, values)).rows;
  return row && { rows: row.rows, end: [row.at, row.id] };
}

const RANGE = `landed_at BETWEEN $1::timestamptz AND $3::timestamptz
  AND (landed_at, id) > ($1::timestamptz, $2) AND (landed_at, id) <= ($3::timestamptz, $4)`;

/** Not those of events that landed anew since their month was detached. */
const freeIds = (table: string): string => `
  WITH gone AS (
    DELETE FROM events_ids
    WHERE id = ANY (ARRAY (SELECT id FROM ${table} WHERE ${RANGE})) AND landed_at < $5::timestamptz
    RETURNING 1
  ) SELECT count(*)::int AS rows FROM gone`;

const REMOVE_TYPE = `
  WITH gone AS (
    DELETE FROM events WHERE ${RANGE} AND type = $5 RETURNING id
  ), freed AS (
    DELETE FROM events_ids WHERE id = ANY (ARRAY (SELECT id FROM gone))
  ) SELECT count(*)::int AS rows FROM gone`;

const count = async (query: Query, sql: string, values: unknown[]): Promise<number> =>
  (await query<{ rows: number }>(sql, values)).rows[0]?.rows ?? 0;

const endOf = (month: string): string => beginningOf(later(month, 1));
