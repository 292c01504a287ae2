// Removes old rows from PostgreSQL; see Pruning in lib/ingest/warehouse.ts.
//
// Keys are handed to DELETE as an array, so that it finds them by the primary key whatever the planner knows of the
// table.
import type pg from 'pg';
import { PRUNED_TABLES, type PruneCursor, type Pruned, type Pruning } from '../ingest/warehouse.ts';
import { BEGINNING, pruneBound, pruneMonths, pruneTypeByMonth, type Query } from './prune-months.ts';

interface PrunedRow extends pg.QueryResultRow {
  readonly at: string;
  readonly key: string;
  readonly removed: number;
}

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
  const [row] = (await query<PrunedRow>(sql, values)).rows;
  return row === undefined ? { removed: 0, next: undefined } : { removed: row.removed, next: [row.at, row.key] };
}
