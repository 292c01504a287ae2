// The SQLite warehouse of ingest-admin, on an existing file. Calls are synchronous, because ingest-admin has nothing
// else to do meanwhile.
import { hash } from 'node:crypto';
import { existsSync } from 'node:fs';
import type { DatabaseSync } from 'node:sqlite';
import { WarehouseFailed, type WarehouseAdmin } from '../ingest/warehouse-admin.ts';
import { adminOfTables } from '../ingest/warehouse-tables.ts';
import type { Clock } from '../process/clock.ts';
import { messageOf } from '../process/message-of.ts';
import { sqliteUri } from '../process/uri.ts';
import { CODE, misconfigured, NO_FILE, numbered, openFile, refuses } from './file.ts';

// Row ids ascend as rows land, and the oldest rows are deleted first, so this is an upper bound of the number of
// rows.
const ESTIMATE = 'SELECT (SELECT max(rowid) FROM events) - (SELECT min(rowid) FROM events) + 1 AS rows';

export function createSqliteAdmin(path: string, clock: Clock): WarehouseAdmin {
  let opened: DatabaseSync | undefined;
  const run = <T>(work: (database: DatabaseSync) => T): Promise<T> => {
    try {
      if (!existsSync(path)) throw new Error(NO_FILE);
      return Promise.resolve(work((opened ??= open(path))));
    } catch (cause) {
      return Promise.reject(new WarehouseFailed(messageOf(misconfigured(cause, path)), { cause }));
    }
  };

  return {
    uri: sqliteUri(path),
    ...adminOfTables({
      rows: (sql, ...values) => run((database) => database.prepare(numbered(sql)).all(...values)),
      change: (sql, ...values) => run((database) => Number(database.prepare(numbered(sql)).run(...values).changes)),
      code: CODE,
      estimate: ESTIMATE,
      timeValue: String,
      exactTime: String,
      time: String,
      afterAllTimes: 'after',
      nowMs: () => clock.epochMs(),
      refuses,
      isIn: (column, parameter) => `${column} IN (SELECT value FROM json_each(${parameter}))`,
      digest: (column) => `sha256(${column})`,
    }),
    clock: () => Promise.resolve(undefined),
    eraseTraces: () =>
      run((database) => {
        // `busy` is 1 if a reader was still using the log when the busy timeout expired.
        const { busy } = database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get() as { readonly busy: number };
        if (busy !== 0) throw new Error(`${path}-wal is in use and still holds the bodies; run the same command again`);
        return undefined;
      }),
    close: () => Promise.resolve(opened?.close()),
  };
}

function open(path: string): DatabaseSync {
  const database = openFile(path, false);
  database.function('sha256', { deterministic: true }, (text) => hash('sha256', String(text)));
  return database;
}
