// SQLite that is away, and a consumer whose queue has trouble.
import assert from 'node:assert/strict';
import { renameSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { PATIENT } from '../support/gateway.ts';
import { metricOf, Pipeline, type Replica } from '../support/pipeline.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { sqliteStore, type WarehouseStore } from '../support/warehouse-store.ts';
import { describeWarehouseOutage, event, isReady, postAll } from './outage.ts';

const HOUR_MS = 3_600_000;

const sqlite = sqliteStore();
const { folder } = sqlite;
describeWarehouseOutage(
  'SQLite',
  async () => sqlite,
  async () => renameSync(folder, `${folder}-away`),
  async () => renameSync(`${folder}-away`, folder),
);

describe('a consumer whose queue has trouble', { tags: ['long'] }, () => {
  let redis: TestRedis;
  let store: WarehouseStore;
  let pipeline: Pipeline;
  let replica: Replica;
  before(async () => {
    redis = await TestRedis.start(['--appendonly', 'no']);
    store = sqliteStore();
    pipeline = await Pipeline.start({ queueUri: redis.uri, warehouseUri: store.uri, env: PATIENT });
    replica = pipeline.replicas[0] as Replica;
    await isReady(replica, true);
  });
  after(() => pipeline.stop());

  /** It goes on: one more event lands, and it has not been made busy meanwhile. */
  async function goesOn(id: string, rows: number): Promise<void> {
    await eventually(
      'the gateway accepts',
      async () => (await pipeline.post(event(id)).catch(() => undefined))?.status === 202,
    );
    await eventually('the event lands', async () => (await store.count()) === rows);
    await isReady(replica, true);
    assert.ok(replica.program.running);
  }

  const vanished = (): Promise<number> => metricOf(replica, 'ingest_queue_group_vanished_total');
  const errors = (): number => replica.program.lines.filter((line) => line.includes('"level":"error"')).length;

  it('makes a deleted stream again, loudly, and lands what comes', async () => {
    await postAll(pipeline, ['one']);
    await eventually('it lands', async () => (await store.count()) === 1);
    await redis.command('DEL', 'ingest');
    await eventually('it is told', async () => (await vanished()) === 1);
    await goesOn('two', 2);
    assert.match(replica.program.output, /"level":"error".*the stream or its consumer group is gone/);
  });

  it('makes a deleted group again and lands once what the stream still holds', async () => {
    await redis.command('XGROUP', 'DESTROY', 'ingest', 'warehouse');
    await eventually('it is told', async () => (await vanished()) === 2);
    await goesOn('three', 3);
    assert.ok(
      (await metricOf(replica, 'ingest_consumer_duplicates_total')) >= 1,
      'the stream was read again from its beginning',
    );
  });

  it('goes on with a server that was restarted empty, without a spin', async () => {
    const before = errors();
    await redis.signal('SIGKILL');
    await isReady(replica, false);
    await redis.start();
    await goesOn('four', 4);
    assert.ok((await vanished()) >= 3);
    assert.ok(errors() - before < 20, replica.program.output);
  });

  it('goes on after a server that was frozen', async () => {
    await redis.signal('SIGSTOP');
    try {
      await isReady(replica, false);
    } finally {
      await redis.signal('SIGCONT');
    }
    await goesOn('five', 5);
  });

  it('calls out in time what is about to be dropped by the queue before it has landed', async () => {
    const [from, to] = [store.uri.slice('sqlite:'.length), `${store.uri.slice('sqlite:'.length)}.away`];
    renameSync(from, to);
    try {
      await isReady(replica, false);
      await redis.command('DEL', 'ingest');
      // Without the group the queue would keep it for no longer than 24 hours.
      await redis.command('XGROUP', 'CREATE', 'ingest', 'warehouse', '0', 'MKSTREAM');
      await redis.command(
        'XADD',
        'ingest',
        String(Date.now() - 165 * HOUR_MS),
        'producer',
        'shop',
        'body',
        event('late'),
      );
      await eventually(
        'the age is seen',
        async () => (await metricOf(replica, 'ingest_queue_oldest_unlanded_seconds')) >= 165 * 3_600,
      );
      await eventually('it is an error in the log', () =>
        /"level":"error".*about to leave the queue/.test(replica.program.output),
      );
    } finally {
      renameSync(to, from);
    }
    await eventually('it lands in time', async () => (await store.count()) === 6, 15_000);
    await eventually(
      'the alarm ends',
      async () => (await metricOf(replica, 'ingest_queue_oldest_unlanded_seconds')) === 0,
    );
  });
});
