// A queue that moves from one Redis to another under load, by the steps of the runbook.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { event, PATIENT } from '../support/gateway.ts';
import { Pipeline } from '../support/pipeline.ts';
import { ProducerLoad } from '../support/producer-load.ts';
import { TestRedis } from '../support/redis.ts';
import { TestCluster } from '../support/redis-cluster.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

let old: TestRedis;
let cluster: TestCluster;
before(async () => {
  [old, cluster] = await Promise.all([TestRedis.start(), TestCluster.start()]);
});

describe('a move from one server to a Redis Cluster, under load', () => {
  it('loses nothing, doubles nothing, and knows every id that was accepted before', async () => {
    const store = sqliteStore();
    const before = await Pipeline.start({
      queueUri: old.uri,
      warehouseUri: store.uri,
      gatewayWarehouseUri: '',
      replicas: 0,
      env: { ...PATIENT },
    });
    atEnd(() => before.stop());
    const first = new ProducerLoad(before, 'first');
    await first.more(100);
    // Consumers of both queues, then gateways that ask the old one.
    const after = await Pipeline.start({
      queueUri: cluster.uri,
      warehouseUri: store.uri,
      gatewayWarehouseUri: '',
      env: { ...PATIENT, INGEST_QUEUE_PARTITIONS: '4', INGEST_QUEUE_PREVIOUS_URI: old.uri },
    });
    atEnd(() => after.stop());
    const second = new ProducerLoad(after, 'second');
    await second.more(100);
    await first.stop();
    const length = await old.length();
    for (const id of [...first.accepted.keys()].slice(0, 50)) {
      const { status, body } = await after.post(event(id));
      assert.deepEqual([status, body['duplicate'], body['differs']], [202, true, undefined], id);
    }
    const [known = ''] = first.accepted.keys();
    assert.equal((await after.post(event(known, { other: 1 }))).body['differs'], true);
    assert.equal((await after.find(known)).status, 200);
    await second.stop();
    assert.equal(await old.length(), length, 'nothing new comes to the old queue');
    await first.assertLanded(store);
    await second.assertLanded(store);
    await eventually('the old queue has nothing left to land', async () => {
      const [pending] = (await old.command('XPENDING', 'ingest', 'warehouse')) as [number];
      return pending === 0;
    });
  });
});
