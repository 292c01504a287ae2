import { before, describe, it } from 'node:test';
import assert from 'node:assert/strict';
import { Pipeline } from '../support/pipeline.ts';
import { TestSentinels } from '../support/redis-sentinel.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { sqliteStore, type WarehouseStore } from '../support/warehouse-store.ts';
import { event } from '../support/gateway.ts';

let sentinels: TestSentinels;
let store: WarehouseStore;
let pipeline: Pipeline;
before(async () => {
  sentinels = await TestSentinels.start();
  store = sqliteStore();
  pipeline = await Pipeline.start({
    queueUri: sentinels.uri,
    warehouseUri: store.uri,
    env: { INGEST_QUEUE_REPLICAS: '1', INGEST_ENQUEUE_TIMEOUT_MS: '1500' },
  });
  atEnd(() => pipeline.stop());
});

describe('replicas that do not acknowledge in time', () => {
  it('cause 503 for an event and its retry, and the retry is a duplicate once a replica has the event', async () => {
    const master = await sentinels.master();
    const replicas = sentinels.servers.filter((server) => server !== master);
    for (const replica of replicas) await replica.signal('SIGSTOP');
    try {
      for (let times = 0; times < 2; times += 1) {
        const { status, body } = await pipeline.post(event('unreplicated'));
        assert.deepEqual([status, body['code'], body['retryable']], [503, 'QUEUE_UNAVAILABLE', true]);
      }
      await eventually('it is in the master', async () =>
        (await master.entries()).some(({ fields }) => fields['body'] === event('unreplicated')),
      );
      await eventually('the gateway is not ready', async () => (await pipeline.ready()).status === 503);
    } finally {
      for (const replica of replicas) await replica.signal('SIGCONT');
    }
    const answer = await eventually('it is accepted', async () => {
      const again = await pipeline.post(event('unreplicated'));
      return again.status === 202 && again;
    });
    assert.equal(answer.body['duplicate'], true);
  });
});
