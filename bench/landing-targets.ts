// The places that bench/landing.ts writes to, each with the fastest other way to write the same rows into its table.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Warehouse } from '../lib/ingest/warehouse.ts';
import { createPostgresWarehouse } from '../lib/postgres/warehouse.ts';
import { createSqliteWarehouse } from '../lib/sqlite/warehouse.ts';
import type { PrivatePostgres } from '../test/support/postgres.ts';
import { SYSTEM } from '../test/support/system.ts';

export const PRODUCER = 'urn:bench:producer';
const ACCEPTED_AT = '2026-01-02T03:04:05.678Z';

export interface Row {
  readonly id: string;
  readonly type: string;
  readonly body: string;
}

/** One place to write to. `reference` gives its own time in seconds; `clear` empties the tables. */
export interface Target {
  readonly name: string;
  readonly uri: string;
  /** Of a consumer, besides the URI. */
  readonly settings: Readonly<Record<string, string>>;
  readonly warehouse: Warehouse;
  clear(): Promise<void>;
  reference(rows: readonly Row[]): Promise<number>;
}

export async function postgresTarget(server: PrivatePostgres, folder: string): Promise<Target> {
  const uri = await server.freshDatabase();
  const warehouse = createPostgresWarehouse({ ...SYSTEM, uri, connectionsMax: 1 });
  await warehouse.prepare();
  return {
    name: 'PostgreSQL',
    uri,
    settings: {},
    warehouse,
    clear: async () => {
      await server.query(uri, 'TRUNCATE events');
      await server.query(uri, 'CHECKPOINT');
    },
    reference: async (rows) => {
      const file = join(folder, 'rows.copy');
      const escaped = (text: string): string => text.replaceAll('\\', '\\\\');
      writeFileSync(
        file,
        rows
          .map(({ id, type, body }) => [id, type, PRODUCER, ACCEPTED_AT, ACCEPTED_AT, escaped(body)].join('\t'))
          .join('\n') + '\n',
      );
      const copy = `\\copy events (id, type, producer, accepted_at, landed_at, body) from '${file}'`;
      const from = performance.now();
      const psql = spawn(
        join(server.programs, 'psql'),
        ['--no-psqlrc', '--quiet', '--set=ON_ERROR_STOP=1', '--command', copy, uri],
        { stdio: 'inherit' },
      );
      const [code] = (await once(psql, 'exit')) as [number];
      if (code !== 0) throw new Error('COPY failed');
      return (performance.now() - from) / 1000;
    },
  };
}

export async function sqliteTarget(folder: string): Promise<Target> {
  const path = join(folder, 'warehouse.db');
  const warehouse = createSqliteWarehouse({ path });
  await warehouse.prepare();
  return {
    name: 'SQLite',
    uri: `sqlite:${path}`,
    settings: {},
    warehouse,
    clear: async () => {
      const database = new DatabaseSync(path, { timeout: 5_000 });
      database.exec('DELETE FROM events; PRAGMA wal_checkpoint(TRUNCATE); VACUUM; PRAGMA wal_checkpoint(TRUNCATE);');
      database.close();
    },
    reference: async (rows) => {
      const database = new DatabaseSync(path, { timeout: 5_000 });
      database.exec('PRAGMA synchronous = FULL');
      const insert = database.prepare(
        'INSERT INTO events (id, type, producer, accepted_at, landed_at, body) VALUES (?, ?, ?, ?, ?, ?)',
      );
      const from = performance.now();
      database.exec('BEGIN IMMEDIATE');
      for (const { id, type, body } of rows) insert.run(id, type, PRODUCER, ACCEPTED_AT, ACCEPTED_AT, body);
      database.exec('COMMIT');
      const seconds = (performance.now() - from) / 1000;
      database.close();
      return seconds;
    },
  };
}
