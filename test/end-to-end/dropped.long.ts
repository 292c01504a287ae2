// Entries that a replica holds when the queue loses them.
import assert from 'node:assert/strict';
import { renameSync } from 'node:fs';
import { describe, it, type TestContext } from 'node:test';
import { PATIENT } from '../support/gateway.ts';
import { Pipeline, readiness, type Replica } from '../support/pipeline.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { sqliteStore, type SqliteStore } from '../support/warehouse-store.ts';

const event = (id: string): string => JSON.stringify({ id, type: 'order.paid' });
const EVENTS = 12;

const pendingOf = async (redis: TestRedis): Promise<number> =>
  Number(((await redis.command('XPENDING', 'ingest', 'warehouse')) as unknown[])[0]);

/** Any process may have trimmed the queue. */
const outputOf = ({ gateway, replicas }: Pipeline): string =>
  [gateway, ...replicas.map(({ program }) => program)].map(({ output }) => output).join('');

/** The one replica holds EVENTS entries, which cannot land until the warehouse is brought back. */
interface Held {
  readonly redis: TestRedis;
  readonly store: SqliteStore;
  readonly pipeline: Pipeline;
  readonly holder: Replica;
  readonly pending: () => Promise<number>;
  readonly bringBack: () => void;
}

async function startHeld(): Promise<Held> {
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

describe('entries that the queue loses while a replica holds them', () => {
  it('land when the connection to the queue breaks and what is pending is read again', async () => {
    const { redis, store, pipeline, pending, bringBack } = await startHeld();
    await redis.command('XTRIM', 'ingest', 'MAXLEN', '0');
    await redis.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    // It is read after what is pending.
    await eventually('the gateway accepts', async () => (await pipeline.post(event('after'))).status === 202);
    await eventually('it is read', async () => (await pending()) >= 1);
    bringBack();
    await eventually('all have landed', async () => (await store.count()) === EVENTS + 1);
    await eventually('nothing is pending', async () => (await pending()) === 0);
    assert.deepEqual(await store.quarantine(), []);
    await pipeline.stop();
  });
});

/** Longer than the 10 s after which a replica claims what another one holds. */
const CLAIMED_MS = 13_000;

describe('entries that the queue loses while a replica holds them', () => {
  const until = async (t: TestContext, what: string, ms: number): Promise<void> => {
    const since = performance.now();
    await eventually(what, () => performance.now() - since > ms, ms + 5_000);
    t.diagnostic(what);
  };

  it('land when another replica might have claimed them meanwhile', async (t) => {
    const { redis, store, pipeline, pending, bringBack } = await startHeld();
    await pipeline.startConsumer();
    await redis.command('XTRIM', 'ingest', 'MAXLEN', '0');
    await until(t, 'they would have been claimed', CLAIMED_MS);
    bringBack();
    await eventually('all have landed', async () => (await store.count()) === EVENTS);
    await eventually('nothing is pending', async () => (await pending()) === 0);
    assert.deepEqual(await store.quarantine(), []);
    await pipeline.stop();
  });

  it('land when their holder was taken for dead and comes back', async () => {
    const { redis, store, pipeline, holder, bringBack } = await startHeld();
    holder.program.signal('SIGSTOP');
    await redis.command('XTRIM', 'ingest', 'MAXLEN', '0');
    bringBack();
    await pipeline.startConsumer();
    await eventually('they are named', () => /deleted by hand/.test(outputOf(pipeline)), 30_000);
    assert.equal(await store.count(), 0);
    holder.program.signal('SIGCONT');
    await eventually('all have landed', async () => (await store.count()) === EVENTS);
    assert.deepEqual(await store.quarantine(), []);
    await pipeline.stop();
  });

  it('are named in the log when their holder is dead, and those that are still there land', async () => {
    const { redis, store, pipeline, holder, pending, bringBack } = await startHeld();
    await holder.program.kill();
    const entries = await redis.entries();
    for (const { entry } of entries.filter((_, at) => at % 3 === 1)) await redis.command('XDEL', 'ingest', entry);
    bringBack();
    await pipeline.startConsumer();
    await eventually('the others have landed', async () => (await store.count()) === (2 * EVENTS) / 3, 30_000);
    await eventually('nothing is pending', async () => (await pending()) === 0);
    assert.deepEqual(await store.quarantine(), []);
    await eventually('they are named', () => {
      const told = [...outputOf(pipeline).matchAll(/(\d+) entries were deleted by hand/g)];
      return told.reduce((sum, [, entries]) => sum + Number(entries), 0) === EVENTS / 3;
    });
    await pipeline.stop();
  });
});
