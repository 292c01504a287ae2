import { rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { DatabaseSync } from 'node:sqlite';
import pg from 'pg';
import { FailingCalls } from '../support/failing-calls.ts';
import { openLink, type Link } from '../support/link.ts';
import { startPrivatePostgres } from '../support/postgres.ts';
import { eventually } from '../support/scope.ts';
import { postgresStore, sqliteStore, type WarehouseStore } from '../support/warehouse-store.ts';
import type { WarehouseKind } from './settings.ts';
import type { Volume } from './volume.ts';

export interface CampaignWarehouse {
  readonly kind: WarehouseKind;
  /** Creates an empty warehouse. The previous one is deleted, because all of them together would fill the disk. */
  fresh(): Promise<FreshWarehouse>;
  /** Makes fsync fail in the processes that are started with its environment. */
  readonly fsync: FailingCalls;
  readonly server?: WarehouseServer;
  stop(): Promise<void>;
}

export interface FreshWarehouse {
  readonly uri: string;
  readonly store: WarehouseStore;
  /** Takes a lock that every writer needs. Returns a function that releases the lock. */
  lock(): Promise<() => Promise<void>>;
}

export interface WarehouseServer {
  readonly link: Link;
  processes(): readonly number[];
  kill(): Promise<void>;
  start(): Promise<void>;
}

export function openWarehouse(kind: WarehouseKind, volume: Volume): Promise<CampaignWarehouse> {
  return kind === 'sqlite' ? Promise.resolve(sqlite(volume)) : postgres(volume);
}

function sqlite(volume: Volume): CampaignWarehouse {
  let before: string | undefined;
  return {
    kind: 'sqlite',
    fsync: new FailingCalls('fsync'),
    fresh: async () => {
      if (before !== undefined) rmSync(dirname(before), { recursive: true });
      const store = sqliteStore(volume.folder);
      const path = store.uri.slice('sqlite:'.length);
      before = path;
      return { uri: store.uri, store, lock: () => sqliteLock(path) };
    },
    stop: async () => undefined,
  };
}

async function sqliteLock(path: string): Promise<() => Promise<void>> {
  const database = new DatabaseSync(path);
  for (let tries = 0; tries < 200; tries += 1) {
    try {
      database.exec('BEGIN EXCLUSIVE');
      break;
    } catch {
      await delay(10);
    }
  }
  return async () => database.close();
}

async function postgres(volume: Volume): Promise<CampaignWarehouse> {
  const fsync = new FailingCalls('fsync');
  const server = await startPrivatePostgres({
    env: fsync.environment,
    durable: true,
    under: volume.folder,
    settings: ['min_wal_size=32MB', 'max_wal_size=128MB'],
  });
  const link = await openLink({ path: `${server.socketFolder}/.s.PGSQL.5432` });
  let before: string | undefined;
  const start = async (): Promise<void> => {
    // A server whose disk failed refuses connections while it exits.
    await eventually('PostgreSQL answers', async () => {
      if (!server.running) {
        await server.kill();
        await server.start();
      }
      return before === undefined || (await server.query(before, 'SELECT 1'));
    });
  };
  return {
    kind: 'postgres',
    fsync,
    server: {
      link,
      processes: () => server.processes(),
      kill: () => server.kill(),
      start,
    },
    fresh: async () => {
      // A server whose disk was full or failed may exit some time later.
      const store = await eventually('PostgreSQL makes a database', async () => {
        await start();
        if (before !== undefined) await server.dropDatabase(before);
        before = undefined;
        return await postgresStore(server);
      });
      before = store.uri;
      const uri = new URL(store.uri);
      uri.searchParams.delete('host');
      uri.port = String(link.port);
      uri.hostname = 'localhost';
      return { uri: uri.href, store, lock: () => postgresLock(store.uri, start) };
    },
    stop: async () => {
      await link.close();
      await server.stop();
    },
  };
}

const LOCK_NOT_AVAILABLE = '55P03';

const postgresLock = (uri: string, start: () => Promise<void>): Promise<() => Promise<void>> =>
  eventually('the warehouse is locked', async () => {
    const client = new pg.Client({ connectionString: uri, connectionTimeoutMillis: 2_000 });
    client.on('error', () => undefined);
    try {
      await client.connect();
      // Only a frozen session holds a table for longer than this.
      await client.query("SET lock_timeout = '5s'");
      await client.query('BEGIN; LOCK TABLE events, events_quarantine IN ACCESS EXCLUSIVE MODE');
      return () => client.end();
    } catch (cause) {
      await client.end().catch(() => undefined);
      // A frozen consumer holds the tables, so no other writer can use them anyway.
      if (cause instanceof pg.DatabaseError && cause.code === LOCK_NOT_AVAILABLE) return async () => undefined;
      await start();
      throw cause;
    }
  });
