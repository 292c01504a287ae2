import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { WITHIN_MS } from './deadline.ts';

export interface PostgresDatabases {
  /** Creates an empty database and returns its URI. `options` are appended to CREATE DATABASE. */
  freshDatabase(options?: string): Promise<string>;
  dropDatabase(uri: string): Promise<void>;
  query<Row extends pg.QueryResultRow>(uri: string, text: string, values?: unknown[]): Promise<Row[]>;
}

let databases = 0;

export async function answers(uri: string, deadline: number): Promise<boolean> {
  while (Date.now() < deadline) {
    try {
      await query(uri, 'SELECT 1');
      return true;
    } catch {
      await delay(20);
    }
  }
  return false;
}

export function databasesOf(uri: string): PostgresDatabases {
  const drop = async (name: string): Promise<void> =>
    void (await query(uri, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`));
  return {
    query,
    dropDatabase: (database) => drop(new URL(database).pathname.slice(1)),
    async freshDatabase(options = '') {
      databases += 1;
      const name = `ingest_test_${process.pid}_${databases}`;
      await drop(name);
      // Copying files takes half the CPU time of the default, which writes each block of the template to the WAL.
      await query(uri, `CREATE DATABASE ${name} TEMPLATE template0 ENCODING 'UTF8' STRATEGY file_copy ${options}`);
      const fresh = new URL(uri);
      fresh.pathname = `/${name}`;
      return fresh.href;
    },
  };
}

async function query<Row extends pg.QueryResultRow>(uri: string, text: string, values: unknown[] = []): Promise<Row[]> {
  const client = new pg.Client({ connectionString: uri, connectionTimeoutMillis: WITHIN_MS });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return (await client.query<Row>(text, values)).rows;
  } finally {
    await client.end();
  }
}
