import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { metricOf, Pipeline } from '../support/pipeline.ts';
import { startPostgres, type PostgresServer } from '../../bench/peers/postgres.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { postgresStore } from '../support/warehouse-store.ts';

describe('three replicas on a PostgreSQL whose transactions are serializable', () => {
  let postgres: PostgresServer;
  before(async () => {
    postgres = await startPostgres();
  });
  after(() => postgres.stop());

  it('land ids that come to all of them at the same time once each, and see no outage in what the server takes back', async (t) => {
    const redis = await TestRedis.start(['--appendonly', 'no']);
    const store = await postgresStore(postgres);
    const database = new URL(store.uri).pathname.slice(1);
    await postgres.query(store.uri, `ALTER DATABASE ${database} SET default_transaction_isolation = 'serializable'`);
    const ids = Array.from({ length: 400 }, (_, at) => `order-${at}`);
    // Each id again and again, and small batches: the replicas hold the same ids at the same time.
    for (let round = 0; round < 6; round += 1) {
      for (const id of round % 2 === 0 ? ids : ids.toReversed())
        await redis.command('XADD', 'ingest', '*', 'producer', 'shop', 'body', JSON.stringify({ id, type: 't' }));
    }
    const pipeline = await Pipeline.start({
      queueUri: redis.uri,
      warehouseUri: store.uri,
      replicas: 3,
      env: { INGEST_CONSUMER_BATCH_MAX: '20' },
    });
    t.after(() => pipeline.stop());
    await eventually(
      'nothing is left',
      async () =>
        Number(((await redis.command('XPENDING', 'ingest', 'warehouse')) as unknown[])[0]) === 0 &&
        (await store.count()) === ids.length,
      60_000,
    );
    assert.deepEqual((await store.events()).map(({ id }) => id).toSorted(), ids.toSorted());
    assert.deepEqual(await store.quarantine(), []);
    for (const replica of pipeline.replicas) {
      const failures = await metricOf(replica, 'ingest_consumer_failures_total{dependency="warehouse"}');
      assert.ok(Number.isNaN(failures) || failures === 0, replica.program.output);
    }
  });
});
