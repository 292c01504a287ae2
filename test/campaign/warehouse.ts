// The warehouse under a campaign, of either kind: the same few things can be done to it, where it has them.
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
  /** A warehouse that holds nothing. The one before is gone: all of them together would fill the disk. */
  fresh(): Promise<FreshWarehouse>;
  /** Of its disk. The processes that write there are started with its environment. */
  readonly fsync: FailingCalls;
  /** Present where it is a server. */
  readonly server?: WarehouseServer;
  stop(): Promise<void>;
}

export interface FreshWarehouse {
  /** As the programs reach it. */
  readonly uri: string;
  readonly store: WarehouseStore;
  /** Holds what every writer needs; gives what lets go of it. */
  lock(): Promise<() => Promise<void>>;
}

export interface WarehouseServer {
  readonly link: Link;
  processes(): readonly number[];
  kill(): Promise<void>;
  /** Starts it where it does not run; resolves when it answers. */
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
      // A writer has it.
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
    // One that met a broken disk refuses connections while it is about to end.
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
      // One that ran out of disk space, or met a broken disk, may end some time after all is well again.
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

/** Longer than any session holds a table that is not frozen itself. */
const LOCK_WAIT = "SET lock_timeout = '5s'";
const LOCK_NOT_AVAILABLE = '55P03';

/**
 * `start` starts the server where it has ended: one that ran out of disk space recovers, or ends, some time after there
 * is room again.
 */
async function postgresLock(uri: string, start: () => Promise<void>): Promise<() => Promise<void>> {
  for (let tries = 0; ; tries += 1) {
    const client = new pg.Client({ connectionString: uri, connectionTimeoutMillis: 2_000 });
    client.on('error', () => undefined);
    try {
      await client.connect();
      await client.query(LOCK_WAIT);
      await client.query('BEGIN');
      await client.query('LOCK TABLE events, events_quarantine IN ACCESS EXCLUSIVE MODE');
      return () => client.end();
    } catch (cause) {
      if (tries === 200) throw cause;
      await client.end().catch(() => undefined);
      // A frozen consumer holds the tables until it goes on: nobody could lock them.
      if (cause instanceof pg.DatabaseError && cause.code === LOCK_NOT_AVAILABLE) return async () => undefined;
      await start();
      await delay(100);
    }
  }
}
