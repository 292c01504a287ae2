// The PostgreSQL warehouse as ingest-admin sees it: short calls on tables that the consumer has made.
//
// Limits: those of sessions.ts; one session.
import type pg from 'pg';
import { WarehouseFailed, type WarehouseAdmin } from '../ingest/warehouse-admin.ts';
import { adminOfTables, type SqlRow } from '../ingest/warehouse-tables.ts';
import type { ClockAndRandom } from '../process/clock.ts';
import { maskedUri } from '../process/masked-uri.ts';
import { messageOf } from '../process/message-of.ts';
import { insertEvents, refuses } from './landing.ts';
import { misconfigured } from './misconfigured.ts';
import { byMonthOf, whereId } from './months.ts';
import { prune, pruneBound, type Query } from './prune.ts';
import { openSessions, transacted } from './sessions.ts';

// What the server has noted at its last look through the table; -1 before the first one.
const ESTIMATE = `SELECT reltuples AS rows FROM pg_class
  WHERE oid = coalesce(to_regclass('events_ids'), to_regclass('events'))`;

export function createPostgresAdmin(uri: string, system: ClockAndRandom): WarehouseAdmin {
  const { clock } = system;
  const pool = openSessions({ uri, connectionsMax: 1, connectTimeoutMs: 5_000, callTimeoutMs: 60_000 });
  /** Rejects with WarehouseFailed. */
  const ask: Query = async <R extends pg.QueryResultRow>(sql: string, values: unknown[]) => {
    try {
      return await transacted(system, () => pool.query<R>(sql, values));
    } catch (cause) {
      throw new WarehouseFailed(messageOf(misconfigured(cause, uri)), { cause });
    }
  };
  const byMonth = byMonthOf((sql) => ask(sql, []));

  return {
    place: maskedUri(uri),
    ...adminOfTables({
      rows: async (sql, ...values) => (await ask<SqlRow>(sql, [...values])).rows,
      change: async (sql, ...values) => (await ask(sql, [...values])).rowCount ?? 0,
      code: `split_part(reason, ':', 1)`,
      estimate: ESTIMATE,
      ofId: async () => whereId('$1', await byMonth()),
      shown: (column) => `round(extract(epoch FROM ${column}) * 1000)::float8`,
      exact: (column) => `${column}::text`,
      time: (parameter) => `${parameter}::timestamptz`,
      afterAllTimes: 'infinity',
      texts: (parameter) => `SELECT json_array_elements_text(${parameter}::json)`,
    }),
    prune: async (...step) => prune(ask, await byMonth(), clock.epochMs(), ...step),
    pruneBound: async (pruning) => pruneBound(pruning, await byMonth(), clock.epochMs()),

    land: async (event) => {
      await insertEvents(ask, [event], clock.epochMs(), await byMonth()).catch((cause: unknown) => {
        if (!(cause instanceof WarehouseFailed && refuses(cause.cause))) throw cause;
      });
    },
    eraseTraces: () =>
      Promise.resolve(
        'the row as it was is in the files of PostgreSQL until VACUUM FULL events, events_quarantine, ' +
          'and in its log until that is recycled',
      ),
    close: () => pool.end(),
  };
}
