import assert from 'node:assert/strict';
import { renameSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { PATIENT } from '../support/gateway.ts';
import { metricOf, Pipeline, readiness } from '../support/pipeline.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { sqliteStore, type SqliteStore } from '../support/warehouse-store.ts';

const BATCH = 5;
const event = (id: string): string => JSON.stringify({ id, type: 'order.paid' });

interface Member {
  readonly name: string;
  readonly pending: number;
}

describe('replicas of the consumer', () => {
  let redis: TestRedis;
  let store: SqliteStore;
  let pipeline: Pipeline;
  before(async () => {
    redis = await TestRedis.start(['--appendonly', 'no']);
    store = sqliteStore();
    pipeline = await Pipeline.start({
      queueUri: redis.uri,
      warehouseUri: store.uri,
      replicas: 2,
      env: { ...PATIENT, INGEST_CONSUMER_BATCH_MAX: String(BATCH) },
    });
  });
  after(() => pipeline.stop());

  async function members(): Promise<readonly Member[]> {
    const found = (await redis.command('XINFO', 'CONSUMERS', 'ingest', 'warehouse')) as unknown[][];
    return found.map((fields) => ({ name: String(fields[1]), pending: Number(fields[3]) }));
  }

  it('take over what a dead and a frozen one held, and the late write of the frozen one makes no second row', async () => {
    const [frozen, dead] = pipeline.replicas;
    assert.ok(frozen !== undefined && dead !== undefined);
    await pipeline.post(event('first'));
    for (const replica of pipeline.replicas)
      await eventually('it is ready', async () => (await readiness(replica)).status === 200);
    await eventually('the first has landed', async () => (await store.count()) === 1);

    renameSync(store.folder, `${store.folder}-away`);
    // One replica takes in only so many while nothing lands: the other one gets the rest.
    let held = 0;
    await eventually(
      'both hold entries',
      async () => {
        for (const most = held + BATCH; held < most; held += 1)
          assert.equal((await pipeline.post(event(`held-${held}`))).status, 202);
        return (await members()).filter(({ pending }) => pending > 0).length === 2;
      },
      20_000,
    );
    frozen.program.signal('SIGSTOP');
    await dead.program.kill();
    renameSync(`${store.folder}-away`, store.folder);
    assert.equal(await store.count(), 1);

    const joined = await pipeline.startConsumer();
    await eventually('the new one has landed all', async () => (await store.count()) === 1 + held, 30_000);
    // Counted once the commit was answered.
    await eventually('it counts them', async () => (await metricOf(joined, 'ingest_landed_total')) === held);

    frozen.program.signal('SIGCONT');
    await eventually(
      'the frozen one has written late',
      async () => (await metricOf(frozen, 'ingest_consumer_duplicates_total')) > 0,
    );
    assert.equal(await store.count(), 1 + held);
    assert.deepEqual(await store.quarantine(), []);
    await eventually('nothing is pending', async () => (await members()).every(({ pending }) => pending === 0));

    await pipeline.post(event('after'));
    await eventually('events land', async () => (await store.count()) === 2 + held);
    assert.ok(frozen.program.running && joined.program.running);
  });
});
