// The PostgreSQL warehouse of ingest-admin, on tables that the consumer has created. It has two sessions, because
// commands run two queries at the same time, and the time limit for getting a session is short.
import type pg from 'pg';
import { PRUNED_TABLES, type PruneCursor, type Pruned, type Pruning } from '../ingest/warehouse.ts';
import { WarehouseFailed, type WarehouseAdmin } from '../ingest/warehouse-admin.ts';
import { adminOfTables, type SqlRow } from '../ingest/warehouse-tables.ts';
import type { ClockAndRandom } from '../process/clock.ts';
import { maskedUri } from '../process/uri.ts';
import { messageOf } from '../process/message-of.ts';
import { insertEvents, refuses } from './landing.ts';
import { misconfigured, openSessions, transacted } from './sessions.ts';

type Query = <R extends pg.QueryResultRow>(sql: string, values: unknown[]) => Promise<pg.QueryResult<R>>;

// PostgreSQL's estimate; -1 before the first ANALYZE.
const ESTIMATE = `SELECT reltuples AS rows FROM pg_class WHERE oid = to_regclass('events')`;

export function createPostgresAdmin(uri: string, system: ClockAndRandom): WarehouseAdmin {
  const { clock } = system;
  const pool = openSessions({ uri, connectionsMax: 2, connectTimeoutMs: 5_000, callTimeoutMs: 60_000 });
  const ask: Query = async <R extends pg.QueryResultRow>(sql: string, values: unknown[]) => {
    try {
      return await transacted(system, () => pool.query<R>(sql, values));
    } catch (cause) {
      throw new WarehouseFailed(messageOf(misconfigured(cause, uri)), { cause });
    }
  };

  return {
    place: maskedUri(uri),
    ...adminOfTables({
      rows: async (sql, ...values) => (await ask<SqlRow>(sql, [...values])).rows,
      change: async (sql, ...values) => (await ask(sql, [...values])).rowCount ?? 0,
      code: `split_part(reason, ':', 1)`,
      estimate: ESTIMATE,
      shown: (column) => `round(extract(epoch FROM ${column}) * 1000)::float8`,
      exact: (column) => `${column}::text`,
      time: (parameter) => `${parameter}::timestamptz`,
      afterAllTimes: 'infinity',
      // An array, so that the primary key's index is used even without statistics.
      isIn: (column, parameter) => `${column} = ANY (ARRAY (SELECT json_array_elements_text(${parameter}::json)))`,
      digest: (column) => `encode(sha256(convert_to(${column}, 'UTF8')), 'hex')`,
    }),
    clock: async () => {
      const { rows } = await ask<{ ms: number }>(
        'SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS ms',
        [],
      );
      return rows[0]?.ms;
    },
    prune: (...step) => prune(ask, ...step),

    land: async (event) => {
      await insertEvents(ask, [event], clock.epochMs()).catch((cause: unknown) => {
        if (!(cause instanceof WarehouseFailed && refuses(cause.cause))) throw cause;
      });
    },
    eraseTraces: () =>
      Promise.resolve(
        'the old row stays in the files of PostgreSQL until VACUUM FULL events, events_quarantine, ' +
          'and in its log until that is recycled',
      ),
    close: () => pool.end(),
  };
}

const BEGINNING: PruneCursor = ['-infinity', ''];

/** DELETE receives its keys as an array, so that it uses the primary key's index even without statistics. */
async function prune(
  query: Query,
  { table, beforeMs, type }: Pruning,
  from: PruneCursor | undefined,
  limit: number,
): Promise<Pruned> {
  const { name, at, key } = PRUNED_TABLES[table];
  const ofType = type === undefined ? '' : 'AND type = $5';
  const sql = `
    WITH page AS (
      SELECT ${at} AS at, ${key} AS key, accepted_at${type === undefined ? '' : ', type'} FROM ${name}
      WHERE ${at} < to_timestamp($1::float8 / 1000)
        AND ${at} >= $2::timestamptz AND (${at}, ${key}) > ($2::timestamptz, $3)
      ORDER BY ${at}, ${key} LIMIT $4
    ), gone AS (
      DELETE FROM ${name} WHERE ${key} = ANY (ARRAY (
        SELECT key FROM page WHERE accepted_at < to_timestamp($1::float8 / 1000) ${ofType})) RETURNING 1
    )
    SELECT at::text AS at, key, (SELECT count(*) FROM gone)::int AS removed
    FROM page ORDER BY page.at DESC, key DESC LIMIT 1`;
  const values = [beforeMs, ...(from ?? BEGINNING), limit, ...(type === undefined ? [] : [type])];
  const [row] = (await query<{ at: string; key: string; removed: number }>(sql, values)).rows;
  return row === undefined ? { removed: 0, next: undefined } : { removed: row.removed, next: [row.at, row.key] };
}
