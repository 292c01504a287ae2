// A warehouse of a test's own, and what stands in it, read past the adapters.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { PostgresServer } from './postgres.ts';
import { temporaryFolder } from './scope.ts';

export interface StoredEvent {
  readonly id: string;
  readonly producer: string;
  readonly body: string;
}

export interface StoredEntry {
  readonly entry: string;
  readonly id: string | null;
  readonly producer: string;
  readonly reason: string;
  readonly body: Buffer;
}

export interface WarehouseStore {
  readonly uri: string;
  /** The number of rows; 0 before a consumer has made the tables. */
  count(): Promise<number>;
  events(): Promise<readonly StoredEvent[]>;
  quarantine(): Promise<readonly StoredEntry[]>;
}

const EVENTS = 'SELECT id, producer, body FROM events ORDER BY id';
const QUARANTINE = 'SELECT entry, id, producer, reason, body FROM events_quarantine ORDER BY entry';
const COUNT = 'SELECT count(*) AS rows FROM events';

export interface SqliteStore extends WarehouseStore {
  /** The folder that holds nothing but the database. */
  readonly folder: string;
}

/** `under`: the folder that its own folder is made in. */
export function sqliteStore(under?: string): SqliteStore {
  // Inside another one, so that a test that moves it away leaves nothing behind.
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
    events: async () => read<StoredEvent>(EVENTS),
    quarantine: async () =>
      read<Omit<StoredEntry, 'body'> & { body: Uint8Array }>(QUARANTINE).map((row) => ({
        ...row,
        body: Buffer.from(row.body),
      })),
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
    events: () => server.query<StoredEvent & Record<string, unknown>>(uri, EVENTS),
    quarantine: () => server.query<StoredEntry & Record<string, unknown>>(uri, QUARANTINE),
  };
}
