// Removes old rows from PostgreSQL; see Pruning in lib/ingest/warehouse.ts.
//
// Keys are handed to DELETE as an array, so that it finds them by the primary key whatever the planner knows of the
// table.
import { PRUNED_TABLES, type PruneCursor, type Pruned, type Pruning } from '../ingest/warehouse.ts';

/** The statement of one step, and its values. */
export function pruneStatement(
  { table, beforeMs, type }: Pruning,
  from: PruneCursor | undefined,
  limit: number,
): { text: string; values: unknown[] } {
  const { name, at, key } = PRUNED_TABLES[table];
  const ofType = type === undefined ? '' : 'WHERE type = $5';
  const text = `
    WITH page AS (
      SELECT ${at} AS at, ${key} AS key${type === undefined ? '' : ', type'} FROM ${name}
      WHERE ${at} < to_timestamp($1::float8 / 1000) AND ${at} >= $2::timestamptz AND (${at}, ${key}) > ($2::timestamptz, $3)
      ORDER BY ${at}, ${key} LIMIT $4
    ), gone AS (
      DELETE FROM ${name} WHERE ${key} = ANY (ARRAY (SELECT key FROM page ${ofType})) RETURNING 1
    )
    SELECT at::text AS at, key, (SELECT count(*) FROM gone)::int AS removed FROM page ORDER BY page.at DESC, key DESC LIMIT 1`;
  return { text, values: [beforeMs, ...(from ?? ['-infinity', '']), limit, ...(type === undefined ? [] : [type])] };
}

export interface PrunedRow {
  readonly at: string;
  readonly key: string;
  readonly removed: number;
}

export const prunedBy = (row: PrunedRow | undefined): Pruned =>
  row === undefined ? { removed: 0, next: undefined } : { removed: row.removed, next: [row.at, row.key] };
