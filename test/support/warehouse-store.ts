// A warehouse for one test, read without the adapters.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type pg from 'pg';
import type { PostgresServer } from './postgres.ts';
import { temporaryFolder } from './scope.ts';

export interface StoredEvent {
  readonly id: string;
  readonly producer: string;
  readonly body: string;
  readonly acceptedAtMs: number;
}

export interface StoredEntry {
  readonly entry: string;
  readonly id: string | null;
  readonly producer: string;
  readonly reason: string;
  readonly body: Buffer;
  readonly acceptedAtMs: number;
}

export interface WarehouseStore {
  readonly uri: string;
  /** Returns the number of rows, or 0 before a consumer has created the tables. */
  count(): Promise<number>;
  events(): Promise<readonly StoredEvent[]>;
  quarantine(): Promise<readonly StoredEntry[]>;
  refuse(type: string, refused: boolean): Promise<void>;
}

const EVENTS = 'SELECT id, producer, body, accepted_at FROM events ORDER BY id';
const QUARANTINE = 'SELECT entry, id, producer, reason, body, accepted_at FROM events_quarantine ORDER BY entry';
const COUNT = 'SELECT count(*) AS rows FROM events';

function stored<Row extends object>({
  accepted_at,
  ...row
}: Row & { readonly accepted_at: string | Date }): Omit<Row, 'accepted_at'> & { readonly acceptedAtMs: number } {
  return { ...row, acceptedAtMs: new Date(accepted_at).getTime() };
}

interface EventRow {
  readonly id: string;
  readonly producer: string;
  readonly body: string;
  readonly accepted_at: string | Date;
}

interface EntryRow {
  readonly entry: string;
  readonly id: string | null;
  readonly producer: string;
  readonly reason: string;
  readonly body: Uint8Array;
  readonly accepted_at: string | Date;
}

const entryOf = (row: EntryRow): StoredEntry => ({ ...stored(row), body: Buffer.from(row.body) });

export interface SqliteStore extends WarehouseStore {
  readonly folder: string;
}

export function sqliteStore(under?: string): SqliteStore {
  // This folder is inside another one, so that a test may rename it.
  const folder = join(temporaryFolder('ingest-warehouse-', under), 'here');
  mkdirSync(folder);
  const path = join(folder, 'warehouse.db');
  const read = <Row>(sql: string): Row[] => {
    const database = new DatabaseSync(path, { readOnly: true, timeout: 5_000 });
    try {
      return database.prepare(sql).all() as Row[];
    } finally {
      database.close();
    }
  };
  return {
    uri: `sqlite:${path}`,
    folder,
    count: async () => {
      try {
        return read<{ rows: number }>(COUNT)[0]?.rows ?? 0;
      } catch {
        return 0;
      }
    },
    events: async () => read<EventRow>(EVENTS).map(stored),
    quarantine: async () => read<EntryRow>(QUARANTINE).map(entryOf),
    refuse: async (type, refused) => {
      const database = new DatabaseSync(path, { timeout: 5_000 });
      const when = `BEFORE INSERT ON events WHEN NEW.type = '${type}'`;
      const trigger = `CREATE TRIGGER refused ${when} BEGIN SELECT RAISE(ABORT, 'refused'); END`;
      database.exec(refused ? trigger : 'DROP TRIGGER refused');
      database.close();
    },
  };
}

export async function postgresStore(server: PostgresServer): Promise<WarehouseStore> {
  const uri = await server.freshDatabase();
  return {
    uri,
    count: async () => {
      try {
        return Number((await server.query<{ rows: string }>(uri, COUNT))[0]?.rows);
      } catch {
        return 0;
      }
    },
    events: async () =>
      (await server.query<EventRow & pg.QueryResultRow>(uri, EVENTS)).map((row) => stored<EventRow>(row)),
    quarantine: async () => (await server.query<EntryRow & pg.QueryResultRow>(uri, QUARANTINE)).map(entryOf),
    refuse: async (type, refused) => {
      const change = refused ? `ADD CONSTRAINT refused CHECK (type <> '${type}') NOT VALID` : 'DROP CONSTRAINT refused';
      await server.query(uri, `ALTER TABLE events ${change}`);
    },
  };
}
