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

type Rows = <Row>(sql: string) => Promise<Row[]> | Row[];

/** The columns of a row, with the time of acceptance as the database returns it. */
type Raw<Stored extends { readonly acceptedAtMs: number }> = Omit<Stored, 'acceptedAtMs'> & {
  readonly accepted_at: string | Date;
};

const stored = <Row extends { readonly accepted_at: string | Date }>({ accepted_at, ...row }: Row) => ({
  ...row,
  acceptedAtMs: new Date(accepted_at).getTime(),
});

const storeOf = (uri: string, read: Rows, refuse: WarehouseStore['refuse']): WarehouseStore => ({
  ...{ uri, refuse },
  count: async () => {
    try {
      return Number((await read<{ rows: number | string }>('SELECT count(*) AS rows FROM events'))[0]?.rows);
    } catch {
      return 0;
    }
  },
  events: async () => {
    const rows = await read<Raw<StoredEvent>>('SELECT id, producer, body, accepted_at FROM events ORDER BY id');
    return rows.map(stored);
  },
  quarantine: async () => {
    const columns = 'entry, id, producer, reason, body, accepted_at';
    const rows = await read<Raw<StoredEntry>>(`SELECT ${columns} FROM events_quarantine ORDER BY entry`);
    return rows.map((row) => ({ ...stored(row), body: Buffer.from(row.body) }));
  },
});

export interface SqliteStore extends WarehouseStore {
  readonly folder: string;
}

export function sqliteStore(under?: string): SqliteStore {
  // This folder is inside another one, so that a test may rename it.
  const folder = join(temporaryFolder('ingest-warehouse-', under), 'here');
  mkdirSync(folder);
  const path = join(folder, 'warehouse.db');
  const read: Rows = <Row>(sql: string): Row[] => {
    using database = new DatabaseSync(path, { readOnly: true, timeout: 5_000 });
    return database.prepare(sql).all() as Row[];
  };
  const refuse = async (type: string, refused: boolean): Promise<void> => {
    using database = new DatabaseSync(path, { timeout: 5_000 });
    const when = `BEFORE INSERT ON events WHEN NEW.type = '${type}'`;
    const trigger = `CREATE TRIGGER refused ${when} BEGIN SELECT RAISE(ABORT, 'refused'); END`;
    database.exec(refused ? trigger : 'DROP TRIGGER refused');
  };
  return { ...storeOf(`sqlite:${path}`, read, refuse), folder };
}

export async function postgresStore(server: PostgresServer): Promise<WarehouseStore> {
  const uri = await server.freshDatabase();
  const read: Rows = <Row>(sql: string) => server.query<Row & pg.QueryResultRow>(uri, sql);
  return storeOf(uri, read, async (type, refused) => {
    const change = refused ? `ADD CONSTRAINT refused CHECK (type <> '${type}') NOT VALID` : 'DROP CONSTRAINT refused';
    await server.query(uri, `ALTER TABLE events ${change}`);
  });
}
