// Entries that a replica holds when the queue loses them.
import assert from 'node:assert/strict';
import { renameSync } from 'node:fs';
import { PATIENT } from '../support/gateway.ts';
import { Pipeline, readiness, type Replica } from '../support/pipeline.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { sqliteStore, type SqliteStore } from '../support/warehouse-store.ts';

export const event = (id: string): string => JSON.stringify({ id, type: 'order.paid' });
export const EVENTS = 12;

export const pendingOf = async (redis: TestRedis): Promise<number> =>
  Number(((await redis.command('XPENDING', 'ingest', 'warehouse')) as unknown[])[0]);

/** The one replica holds EVENTS entries, which cannot land until the warehouse is brought back. */
export interface Held {
  readonly redis: TestRedis;
  readonly store: SqliteStore;
  readonly pipeline: Pipeline;
  readonly holder: Replica;
  readonly pending: () => Promise<number>;
  readonly bringBack: () => void;
}

export async function startHeld(): Promise<Held> {
  const redis = await TestRedis.start(['--appendonly', 'no']);
  const store = sqliteStore();
  const pipeline = await Pipeline.start({ queueUri: redis.uri, warehouseUri: store.uri, env: PATIENT });
  atEnd(() => pipeline.stop());
  const holder = pipeline.replicas[0] as Replica;
  const pending = (): Promise<number> => pendingOf(redis);
  await eventually('it is ready', async () => (await readiness(holder)).status === 200);
  renameSync(store.folder, `${store.folder}-away`);
  for (let at = 0; at < EVENTS; at += 1) assert.equal((await pipeline.post(event(`held-${at}`))).status, 202);
  await eventually('it holds them all', async () => (await pending()) === EVENTS);
  const bringBack = (): void => renameSync(`${store.folder}-away`, store.folder);
  return { redis, store, pipeline, holder, pending, bringBack };
}
