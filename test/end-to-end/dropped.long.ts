// What dropped.test.ts leaves out.
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { startPostgres } from '../support/postgres.ts';
import { PATIENT } from '../support/gateway.ts';
import { metricOf, Pipeline, readiness, type Replica } from '../support/pipeline.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { postgresStore, sqliteStore, type WarehouseStore } from '../support/warehouse-store.ts';
import { event, EVENTS, pendingOf, startHeld } from './dropped.ts';

/** Longer than the 10 s after which a replica claims what another one holds. */
const CLAIMED_MS = 13_000;

describe('entries that the queue loses while a replica holds them', () => {
  const until = async (t: TestContext, what: string, ms: number): Promise<void> => {
    const since = performance.now();
    await eventually(what, () => performance.now() - since > ms, ms + 5_000);
    t.diagnostic(what);
  };

  it('land, and nobody says that they were dropped, when another replica might have claimed them meanwhile', async (t) => {
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

  it('land when their holder was taken for dead, and what was said of them is taken back', async () => {
    const { redis, store, pipeline, holder, bringBack } = await startHeld();
    holder.program.signal('SIGSTOP');
    await redis.command('XTRIM', 'ingest', 'MAXLEN', '0');
    bringBack();
    await pipeline.startConsumer();
    await eventually('they are said to be dropped', async () => (await store.quarantine()).length === EVENTS, 30_000);
    assert.equal(await store.count(), 0);
    const [queueId] = (await redis.command('HMGET', '{ingest}:queue', 'id')) as string[];
    for (const { entry, reason } of await store.quarantine()) {
      assert.match(reason, /^dropped_by_queue: /);
      assert.match(entry, new RegExp(`^${queueId}/ingest/[0-9]+-[0-9]+$`));
    }
    holder.program.signal('SIGCONT');
    await eventually('all have landed', async () => (await store.count()) === EVENTS);
    await eventually('nothing is said of them', async () => (await store.quarantine()).length === 0);
    await pipeline.stop();
  });

  it('are said to be dropped when their holder is dead, and those that are still there land', async () => {
    const { redis, store, pipeline, holder, pending, bringBack } = await startHeld();
    await holder.program.kill();
    const entries = await redis.entries();
    for (const { entry } of entries.filter((_, at) => at % 3 === 1)) await redis.command('XDEL', 'ingest', entry);
    bringBack();
    const replica = await pipeline.startConsumer();
    await eventually('the others have landed', async () => (await store.count()) === (2 * EVENTS) / 3, 30_000);
    await eventually('it is said', async () => (await store.quarantine()).length === EVENTS / 3);
    await eventually('nothing is pending', async () => (await pending()) === 0);
    assert.equal(await metricOf(replica, 'ingest_quarantined_total{reason="dropped_by_queue"}'), EVENTS / 3);
    await eventually(
      'they are counted as lost',
      async () => (await metricOf(replica, 'ingest_queue_lost_total')) === EVENTS / 3,
    );
    // Said once for each claim: they may have been taken at different times.
    await eventually('they are told as lost', () => {
      const told = [...replica.program.output.matchAll(/the queue lost (\d+) accepted events?/g)];
      return told.reduce((sum, [, events]) => sum + Number(events), 0) === EVENTS / 3;
    });
    await pipeline.stop();
  });
});

describe('entries that the queue loses after they have landed, when their holder died before it acknowledged them', () => {
  /** As many batches as a replica lands at once: it waits with each for its acknowledgement. */
  const LANDED = 3;
  const STORES: Readonly<Record<string, () => Promise<WarehouseStore>>> = {
    SQLite: () => Promise.resolve(sqliteStore()),
    PostgreSQL: async () => {
      const server = await startPostgres();
      atEnd(() => server.stop());
      return postgresStore(server);
    },
  };

  async function rowsAfter(store: WarehouseStore): Promise<{ landed: number; quarantined: number; lost: number }> {
    const redis = await TestRedis.start(['--appendonly', 'no']);
    const pipeline = await Pipeline.start({ queueUri: redis.uri, warehouseUri: store.uri, env: PATIENT });
    const holder = pipeline.replicas[0] as Replica;
    await eventually('it is ready', async () => (await readiness(holder)).status === 200);
    await redis.command('ACL', 'SETUSER', 'default', '-xack');
    for (let at = 0; at < LANDED; at += 1) {
      assert.equal((await pipeline.post(event(`landed-${at}`))).status, 202);
      await eventually('it has landed', async () => (await store.count()) === at + 1);
    }
    await holder.program.kill();
    await redis.command('ACL', 'SETUSER', 'default', '+xack');
    assert.equal(await pendingOf(redis), LANDED);
    // One more, which no replica ever had in hand: it is lost.
    await pipeline.post(event('lost'));
    await redis.command('XREADGROUP', 'GROUP', 'warehouse', 'dead', 'STREAMS', 'ingest', '>');
    // The gateway looks for what is lost unread; it is to know that this one was read.
    const last = (await redis.entries()).at(-1)?.entry;
    await eventually(
      'it was seen to be read',
      async () => (await redis.command('HGET', '{ingest}:looked', 'place')) === last,
    );
    await redis.command('XTRIM', 'ingest', 'MAXLEN', '0');
    const replica = await pipeline.startConsumer();
    await eventually('nothing is pending', async () => (await pendingOf(redis)) === 0, 40_000);
    const [landed, quarantine] = [await store.count(), await store.quarantine()];
    await eventually('it is counted', async () => (await metricOf(replica, 'ingest_queue_lost_total')) > 0);
    const lost = await metricOf(replica, 'ingest_queue_lost_total');
    await pipeline.stop();
    return { landed, quarantined: quarantine.length, lost };
  }

  it('are acknowledged, and nobody says that they were dropped; of one that never landed it is said and counted', async () => {
    const stores = await Promise.all(Object.values(STORES).map((make) => make()));
    const found = await Promise.all(stores.map(rowsAfter));
    assert.deepEqual(
      found,
      Object.keys(STORES).map(() => ({ landed: LANDED, quarantined: 1, lost: 1 })),
    );
  });
});
