import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { renameSync } from 'node:fs';
import { PATIENT } from '../support/gateway.ts';
import { metricOf, Pipeline, readiness, type Replica } from '../support/pipeline.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { type WarehouseStore, sqliteStore, postgresStore } from '../support/warehouse-store.ts';
import { startPrivatePostgres, type PrivatePostgres } from '../support/postgres.ts';

const event = (id: string): string => JSON.stringify({ id, type: 'order.paid' });

async function isReady(replica: Replica, wanted: boolean): Promise<void> {
  await eventually(`readiness is ${wanted}`, async () => ((await readiness(replica)).status === 200) === wanted);
}

async function postAll(pipeline: Pipeline, ids: readonly string[]): Promise<void> {
  for (const id of ids) assert.equal((await pipeline.post(event(id))).status, 202, id);
}

const idsFrom = (name: string, length: number): string[] => Array.from({ length }, (_, at) => `${name}-${at}`);

function describeWarehouseOutage(
  name: string,
  open: () => Promise<WarehouseStore>,
  away: () => Promise<void>,
  back: () => Promise<void>,
): void {
  describe(`while ${name} is unavailable`, () => {
    let redis: TestRedis;
    let store: WarehouseStore;
    let pipeline: Pipeline;
    before(async () => {
      redis = await TestRedis.start(['--appendonly', 'no']);
      store = await open();
      pipeline = await Pipeline.start({ queueUri: redis.uri, warehouseUri: store.uri, replicas: 2, env: PATIENT });
    });
    after(() => pipeline.stop());

    it('events are accepted, no lookup goes back, and everything lands after the outage without a restart', async () => {
      const [replica] = pipeline.replicas;
      assert.ok(replica !== undefined);
      await postAll(pipeline, idsFrom('before', 5));
      await eventually('the first have landed', async () => (await store.count()) === 5);
      await isReady(replica, true);
      assert.equal((await pipeline.find('before-0')).body['status'], 'landed');

      await away();
      await isReady(replica, false);
      assert.match(String((await readiness(replica)).body['reason']), /^the warehouse is unavailable/);
      await postAll(pipeline, idsFrom('during', 20));
      // The queue knows the first two ids, but not whether their events have landed.
      for (const id of ['before-0', 'during-0', 'never sent']) {
        const found = await pipeline.find(id);
        assert.deepEqual([found.status, found.body['retryable']], [503, true], id);
      }
      await eventually('the lag is seen', async () => (await metricOf(replica, 'ingest_queue_lag_events')) === 20);
      assert.ok((await metricOf(replica, 'ingest_queue_oldest_unlanded_seconds')) > 0);

      await back();
      await eventually('all has landed', async () => (await store.count()) === 25, 20_000);
      assert.deepEqual(await store.quarantine(), []);
      await isReady(replica, true);
      assert.equal((await pipeline.find('during-0')).body['status'], 'landed');
      assert.equal((await pipeline.find('never sent')).status, 404);
      for (const { program } of pipeline.replicas) assert.ok(program.running);
    });
  });
}

const sqlite = sqliteStore();
const { folder } = sqlite;
describeWarehouseOutage(
  'SQLite',
  async () => sqlite,
  async () => renameSync(folder, `${folder}-away`),
  async () => renameSync(`${folder}-away`, folder),
);

describe('a consumer with an unreliable queue', { tags: ['long'] }, () => {
  it('continues after a deleted stream, a deleted group, an empty server and a frozen one', async () => {
    const redis = await TestRedis.start(['--appendonly', 'no']);
    const store = sqliteStore();
    const pipeline = await Pipeline.start({ queueUri: redis.uri, warehouseUri: store.uri, env: PATIENT });
    const [replica = assert.fail()] = pipeline.replicas;
    await isReady(replica, true);
    const vanished = (): Promise<number> => metricOf(replica, 'ingest_queue_group_vanished_total');
    const errors = (): number => replica.program.lines.filter((line) => line.includes('"level":"error"')).length;
    const continues = async (id: string, rows: number): Promise<void> => {
      const status = async (): Promise<unknown> => (await pipeline.post(event(id)).catch(() => undefined))?.status;
      await eventually('the gateway accepts', async () => (await status()) === 202);
      await eventually('the event lands', async () => (await store.count()) === rows);
      await isReady(replica, true);
      assert.ok(replica.program.running);
    };
    await continues('one', 1);
    await redis.command('DEL', 'ingest');
    await eventually('it is told', async () => (await vanished()) === 1);
    await continues('two', 2);
    assert.match(replica.program.output, /"level":"error".*the stream or its consumer group is missing/);

    await redis.command('XGROUP', 'DESTROY', 'ingest', 'warehouse');
    await eventually('it is told', async () => (await vanished()) === 2);
    await continues('three', 3);
    assert.ok((await metricOf(replica, 'ingest_consumer_duplicates_total')) >= 1, 'the stream was read again');

    const before = errors();
    await redis.signal('SIGKILL');
    await isReady(replica, false);
    await redis.start();
    await continues('four', 4);
    assert.ok((await vanished()) >= 3);
    assert.ok(errors() - before < 20, 'no busy loop');

    await redis.signal('SIGSTOP');
    await isReady(replica, false);
    await redis.signal('SIGCONT');
    await continues('five', 5);
    await pipeline.stop();
  });
});

describe('PostgreSQL that can be stopped', { tags: ['long'] }, () => {
  let postgres: PrivatePostgres;
  before(async () => {
    postgres = await startPrivatePostgres({ durable: true });
  });
  after(() => postgres.stop());
  describeWarehouseOutage(
    'PostgreSQL',
    () => postgresStore(postgres),
    () => postgres.kill(),
    () => postgres.start(),
  );
});
