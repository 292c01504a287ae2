// Gateway and consumer on a real Redis Cluster.
import { before } from 'node:test';
import { PATIENT } from '../support/gateway.ts';
import { Pipeline } from '../support/pipeline.ts';
import { TestCluster } from '../support/redis-cluster.ts';
import { atEnd } from '../support/scope.ts';
import { sqliteStore, type WarehouseStore } from '../support/warehouse-store.ts';

export const PARTITIONS = 4;
export const stream = (partition: number): string => `ingest-${partition}`;

export let cluster: TestCluster;
export let store: WarehouseStore;
export let pipeline: Pipeline;
before(async () => {
  cluster = await TestCluster.start();
  store = sqliteStore();
  pipeline = await Pipeline.start({
    queueUri: cluster.uri,
    warehouseUri: store.uri,
    env: { INGEST_QUEUE_PARTITIONS: String(PARTITIONS), ...PATIENT },
  });
  atEnd(() => pipeline.stop());
  // Before that a look-up is 503.
  for (const { program } of pipeline.replicas) await program.line(/the warehouse is ready/);
});
