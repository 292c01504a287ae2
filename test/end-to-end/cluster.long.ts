import { it } from 'node:test';
import assert from 'node:assert/strict';
import { PATIENT } from '../support/gateway.ts';
import { Pipeline } from '../support/pipeline.ts';
import { TestCluster } from '../support/redis-cluster.ts';
import { eventually } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';
import { ProducerLoad } from '../support/load.ts';

const STREAMS = ['ingest-0', 'ingest-1', 'ingest-2', 'ingest-3'] as const;

it('a queue on a Redis Cluster loses and duplicates nothing while a slot moves to another master under load', async () => {
  const [cluster, store] = [await TestCluster.start(), sqliteStore()];
  const env = { INGEST_QUEUE_PARTITIONS: String(STREAMS.length), ...PATIENT };
  const pipeline = await Pipeline.start({ queueUri: cluster.uri, warehouseUri: store.uri, env });
  const load = new ProducerLoad(pipeline, 'moved');
  await load.more(100);
  const from = await cluster.masterOf(STREAMS[0]);
  const masters = await Promise.all(STREAMS.map((stream) => cluster.masterOf(stream)));
  const to = masters.find((node) => node !== from) ?? assert.fail();
  await cluster.reshard(from, to);
  assert.equal(await cluster.masterOf(STREAMS[0]), to);
  const before = await to.length(STREAMS[0]);
  await load.more(100);
  await eventually('its partition takes events there', async () => (await to.length(STREAMS[0])) > before);
  await load.stop();
  await load.assertLanded(store);
  await pipeline.stop();
});
