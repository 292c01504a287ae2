// What becomes of events while the warehouse is away.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { PATIENT } from '../support/gateway.ts';
import { metricOf, Pipeline, readiness, type Replica } from '../support/pipeline.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import type { WarehouseStore } from '../support/warehouse-store.ts';

export const event = (id: string): string => JSON.stringify({ id, type: 'order.paid' });

export async function isReady(replica: Replica, wanted: boolean): Promise<void> {
  await eventually(`readiness is ${wanted}`, async () => ((await readiness(replica)).status === 200) === wanted);
}

export async function postAll(pipeline: Pipeline, ids: readonly string[]): Promise<void> {
  for (const id of ids) assert.equal((await pipeline.post(event(id))).status, 202, id);
}

const idsFrom = (name: string, length: number): string[] => Array.from({ length }, (_, at) => `${name}-${at}`);

export function describeWarehouseOutage(
  name: string,
  open: () => Promise<WarehouseStore>,
  away: () => Promise<void>,
  back: () => Promise<void>,
): void {
  describe(`while ${name} is away`, () => {
    let redis: TestRedis;
    let store: WarehouseStore;
    let pipeline: Pipeline;
    before(async () => {
      redis = await TestRedis.start(['--appendonly', 'no']);
      store = await open();
      pipeline = await Pipeline.start({ queueUri: redis.uri, warehouseUri: store.uri, replicas: 2, env: PATIENT });
    });
    after(() => pipeline.stop());

    it('events are accepted, no look-up says less than before, and all lands without a restart when it is back', async () => {
      const [replica] = pipeline.replicas;
      assert.ok(replica !== undefined);
      await postAll(pipeline, idsFrom('before', 5));
      await eventually('the first have landed', async () => (await store.count()) === 5);
      await isReady(replica, true);
      assert.equal((await pipeline.find('before-0')).body['status'], 'landed');

      await away();
      await isReady(replica, false);
      assert.match(String((await readiness(replica)).body['reason']), /^the warehouse is away/);
      await postAll(pipeline, idsFrom('during', 20));
      // The queue knows the first, which had landed, and the second, which has not; it cannot tell them apart.
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
