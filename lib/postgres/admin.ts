// The PostgreSQL warehouse of ingest-admin, on tables that the consumer has created. It has two sessions, because
// commands run two queries at the same time, and the time limit for getting a session is short.
import type pg from 'pg';
import { WarehouseFailed, type WarehouseAdmin } from '../ingest/warehouse-admin.ts';
import { adminOfTables, type SqlRow } from '../ingest/warehouse-tables.ts';
import type { ClockAndRandom } from '../process/clock.ts';
import { maskedUri } from '../process/uri.ts';
import { messageOf } from '../process/message-of.ts';
import { refuses } from './landing.ts';
import { CODE, isIn, misconfigured, openSessions, transacted, unixMs } from './sessions.ts';

// PostgreSQL's estimate; -1 before the first ANALYZE.
const ESTIMATE = `SELECT reltuples AS rows FROM pg_class WHERE oid = to_regclass('events')`;

export function createPostgresAdmin(uri: string, system: ClockAndRandom): WarehouseAdmin {
  const pool = openSessions({ uri, connectionsMax: 2, connectTimeoutMs: 5_000, callTimeoutMs: 60_000 });
  const ask = async (sql: string, values: unknown[] = []): Promise<pg.QueryResult<SqlRow>> => {
    try {
      return await transacted(system, () => pool.query<SqlRow>(sql, values));
    } catch (cause) {
      throw new WarehouseFailed(messageOf(misconfigured(cause, uri)), { cause });
    }
  };

  return {
    uri: maskedUri(uri),
    ...adminOfTables({
      rows: async (sql, ...values) => (await ask(sql, [...values])).rows,
      change: async (sql, ...values) => (await ask(sql, [...values])).rowCount ?? 0,
      code: CODE,
      estimate: ESTIMATE,
      timeValue: unixMs,
      exactTime: (column) => `${column}::text`,
      time: (parameter) => `${parameter}::timestamptz`,
      afterAllTimes: 'infinity',
      nowMs: () => system.clock.epochMs(),
      refuses,
      isIn,
      digest: (column) => `encode(sha256(convert_to(${column}, 'UTF8')), 'hex')`,
    }),
    clock: async () => Number((await ask(`SELECT ${unixMs('clock_timestamp()')} AS ms`)).rows[0]?.['ms']),
    eraseTraces: () =>
      Promise.resolve(
        'the old row stays in the files of PostgreSQL until VACUUM FULL events, events_quarantine, ' +
          'and in its log until that is recycled',
      ),
    close: () => pool.end(),
  };
}
