// Gateway and consumer on a real master that real sentinels watch, with an acknowledgement of one replica. How soon
// they are back after a fail-over, and many of them, are the matter of `make fail-over`.
import { before } from 'node:test';
import { Pipeline } from '../support/pipeline.ts';
import { TestSentinels } from '../support/redis-sentinel.ts';
import { atEnd } from '../support/scope.ts';
import { sqliteStore, type WarehouseStore } from '../support/warehouse-store.ts';

export let sentinels: TestSentinels;
export let store: WarehouseStore;
export let pipeline: Pipeline;
before(async () => {
  sentinels = await TestSentinels.start();
  store = sqliteStore();
  pipeline = await Pipeline.start({
    queueUri: sentinels.uri,
    warehouseUri: store.uri,
    // Patient: what becomes of events is asked, and not how soon.
    env: { INGEST_QUEUE_REPLICAS: '1', INGEST_ENQUEUE_TIMEOUT_MS: '1500' },
  });
  atEnd(() => pipeline.stop());
});
