import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { event, PATIENT } from '../support/gateway.ts';
import { Pipeline } from '../support/pipeline.ts';
import { Program } from '../support/program.ts';
import { ProducerLoad } from '../support/load.ts';
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
  it('loses no event and lands one row for each id, even if an event is sent to both queues', async () => {
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
    // A consumer for the new queue starts alongside the one for the old queue before any gateway uses the new queue.
    const partitions = { INGEST_QUEUE_PARTITIONS: '4' };
    for (const queue of [{ INGEST_QUEUE_URI: old.uri }, { ...partitions, INGEST_QUEUE_URI: cluster.uri }]) {
      const consumer = new Program('ingest-consumer', {
        env: { ...queue, INGEST_WAREHOUSE_URI: store.uri, INGEST_CONSUMER_ADDR: '127.0.0.1:0' },
      });
      atEnd(() => consumer.kill());
      await consumer.listening();
    }
    const after = await Pipeline.start({
      queueUri: cluster.uri,
      warehouseUri: store.uri,
      replicas: 0,
      env: { ...PATIENT, ...partitions },
    });
    atEnd(() => after.stop());
    const second = new ProducerLoad(after, 'second');
    await second.more(100);
    await first.stop();
    const length = await old.length();
    for (const id of [...first.accepted.keys()].slice(0, 50))
      assert.equal((await after.post(event(id))).status, 202, id);
    await second.stop();
    assert.equal(await old.length(), length, 'nothing new comes to the old queue');
    await first.assertLanded(store);
    await second.assertLanded(store);
    await eventually('ingest-admin says that the old queue is empty', async () => {
      const env = { INGEST_QUEUE_URI: old.uri, INGEST_WAREHOUSE_URI: store.uri };
      const status = new Program('ingest-admin', { env, args: ['status', '--json'] });
      assert.equal(await status.ended, 0, status.output);
      const { queue } = JSON.parse(status.output) as { queue: { partitions: { unread: number; pending: number }[] } };
      return queue.partitions.every(({ unread, pending }) => unread === 0 && pending === 0);
    });
  });
});
