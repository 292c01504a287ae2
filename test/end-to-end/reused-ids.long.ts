import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { event, PATIENT } from '../support/gateway.ts';
import { metricOf, Pipeline } from '../support/pipeline.ts';
import { startPostgres, type PostgresServer } from '../support/postgres.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { postgresStore, sqliteStore, type WarehouseStore } from '../support/warehouse-store.ts';

const BODIES = [1, 2].map((n) => event('again', { n })) as [string, string];

let redis: TestRedis;
let postgres: PostgresServer | undefined;
before(async () => {
  redis = await TestRedis.start(['--appendonly', 'no']);
});
after(() => postgres?.stop());

function describeReused(name: string, database: number, open: () => Promise<WarehouseStore>): void {
  describe(`an id that is reused after its entry has left the queue, into ${name}`, () => {
    let store: WarehouseStore;
    let pipeline: Pipeline;
    let queueUri: string;
    before(async () => {
      store = await open();
      queueUri = `${redis.uri}/${database}`;
      pipeline = await Pipeline.start({ queueUri, warehouseUri: store.uri, env: PATIENT });
    });
    after(() => pipeline.stop());

    const command = async (...args: [string, ...string[]]): Promise<unknown> => {
      await redis.command('SELECT', String(database));
      return redis.command(...args);
    };
    const counted = (metric: string): Promise<number> => metricOf(pipeline.replicas[0] ?? assert.fail(), metric);
    const reused = (): Promise<number> => counted('ingest_quarantined_total{reason="id_reused"}');
    const duplicates = (): Promise<number> => counted('ingest_consumer_duplicates_total');
    const admin = (...args: string[]): Program['ended'] =>
      new Program('ingest-admin', {
        args,
        env: { INGEST_QUEUE_URI: queueUri, INGEST_WAREHOUSE_URI: store.uri },
      }).ended;

    async function sendForgotten(body: string): Promise<void> {
      await command('XTRIM', 'ingest', 'MAXLEN', '0');
      for (const key of (await command('KEYS', '{ingest}:ids:*')) as string[]) await command('DEL', key);
      const answer = await pipeline.post(body);
      assert.deepEqual([answer.status, answer.body], [202, { id: 'again', status: 'accepted' }]);
    }

    it('is a duplicate with the same body and goes to quarantine with another body', async () => {
      assert.equal((await pipeline.post(BODIES[0])).status, 202);
      await eventually('the first has landed', async () => (await store.count()) === 1);
      await sendForgotten(BODIES[0]);
      await eventually('the same body is a duplicate', async () => (await duplicates()) === 1);
      assert.deepEqual(await store.quarantine(), []);
      await sendForgotten(BODIES[1]);
      await eventually('the other body is put aside', async () => (await reused()) === 1);
      const [row] = await store.quarantine();
      assert.deepEqual(
        [row?.id, row?.body.toString(), row?.reason],
        ['again', BODIES[1], 'id_reused: the id belongs to an earlier event of this producer with another body'],
      );
      const found = await pipeline.find('again');
      assert.deepEqual([found.body['status'], found.body['event']], ['landed', JSON.parse(BODIES[0])]);
    });

    it('has the same result if consumers read its entries again', async () => {
      assert.equal((await pipeline.post(event('third'))).status, 202);
      await eventually('another event has landed', async () => (await store.count()) === 2);
      const rows = [await store.events(), await store.quarantine()];
      assert.equal(await admin('land-again', '--since', '1h', '--yes'), 0);
      await eventually('what had landed is a duplicate', async () => (await duplicates()) === 2);
      await eventually('what was put aside is put aside', async () => (await reused()) === 2);
      assert.deepEqual([await store.events(), await store.quarantine()], rows);
    });

    it('keeps its quarantine row after a replay', async () => {
      const rows = [await store.events(), await store.quarantine()];
      assert.equal(await admin('quarantine', 'replay', '--reason', 'id_reused', '--yes'), 1);
      assert.equal(await reused(), 3);
      assert.deepEqual([await store.events(), await store.quarantine()], rows);
    });
  });
}

describeReused('SQLite', 0, async () => sqliteStore());
describeReused('PostgreSQL', 1, async () => postgresStore((postgres = await startPostgres())));
