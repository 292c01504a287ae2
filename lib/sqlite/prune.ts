// Removes old rows from the SQLite file; see Pruning in lib/ingest/warehouse.ts.
import type { DatabaseSync } from 'node:sqlite';
import { PRUNED_TABLES, type PruneCursor, type Pruned, type Pruning } from '../ingest/warehouse.ts';

/** One step. The caller has a transaction open, where it wants the two statements to be one. */
export function prune(
  database: DatabaseSync,
  { table, beforeMs, type }: Pruning,
  from: PruneCursor | undefined,
  limit: number,
): Pruned {
  const { name, at, key } = PRUNED_TABLES[table];
  const after = from ?? ['', ''];
  const last = database
    .prepare(
      `SELECT at, key FROM (
         SELECT ${at} AS at, ${key} AS key FROM ${name} WHERE ${at} < ? AND (${at}, ${key}) > (?, ?)
         ORDER BY ${at}, ${key} LIMIT ?)
       ORDER BY at DESC, key DESC LIMIT 1`,
    )
    .get(new Date(beforeMs).toISOString(), ...after, limit);
  if (last === undefined) return { removed: 0, next: undefined };
  const next: PruneCursor = [String(last['at']), String(last['key'])];
  const ofType = type === undefined ? '' : 'AND type = ?';
  const { changes } = database
    .prepare(`DELETE FROM ${name} WHERE (${at}, ${key}) > (?, ?) AND (${at}, ${key}) <= (?, ?) ${ofType}`)
    .run(...after, ...next, ...(type === undefined ? [] : [type]));
  return { removed: Number(changes), next };
}
