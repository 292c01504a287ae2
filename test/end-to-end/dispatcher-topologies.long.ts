// A dispatcher whose queues are past one Redis each: one behind Sentinel, the other on a Redis Cluster with a user and
// a password.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { partitionOf } from '../../lib/ingest/partition.ts';
import { idsOf } from '../support/queue-ids.ts';
import { event, PATIENT } from '../support/gateway.ts';
import { metricOf, Pipeline } from '../support/pipeline.ts';
import { Program } from '../support/program.ts';
import { TestCluster } from '../support/redis-cluster.ts';
import { TestSentinels } from '../support/redis-sentinel.ts';
import { freePort, type TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

/**
 * Odd: the hashes of one queue's ids are all even, or all odd, and would leave half of an even number of partitions
 * empty.
 */
const PARTITIONS = 3;
const EVENTS = 60;
const stream = (partition: number): string => `ingest-${partition}`;

describe('a dispatcher between a queue behind Sentinel and one on a Redis Cluster', () => {
  let sentinels: TestSentinels;
  let cluster: TestCluster;
  let master: TestRedis;
  before(async () => {
    [sentinels, cluster] = await Promise.all([TestSentinels.start({ replicas: 0 }), TestCluster.start()]);
    master = await sentinels.master();
    const rules = ['reset', 'on', '>secret', '~*', '+@all'];
    for (const server of [master, ...cluster.nodes]) {
      await server.command('ACL', 'SETUSER', 'shop', ...rules);
      // Who sends no AUTH may only say so.
      await server.command('ACL', 'SETUSER', 'default', '-@write');
    }
  });

  it('hands on the credentials of gateways, spreads events over partitions, and consumers land those of both', async () => {
    const [port, adminPort] = [await freePort(), await freePort()];
    const dispatcher = new Program('ingest-dispatcher', {
      env: {
        INGEST_DISPATCH_ADDR: `127.0.0.1:${port}`,
        INGEST_ADMIN_ADDR: `127.0.0.1:${adminPort}`,
        INGEST_DISPATCH_QUEUE_A_URI: sentinels.uri,
        INGEST_DISPATCH_QUEUE_B_URI: cluster.uri,
        INGEST_QUEUE_PARTITIONS: String(PARTITIONS),
        INGEST_SHED_MS: '4000',
      },
    });
    atEnd(() => dispatcher.kill());
    await dispatcher.listening();
    const store = sqliteStore();
    const pipeline = await Pipeline.start({
      queueUri: `dispatcher://shop:secret@127.0.0.1:${port}`,
      warehouseUri: store.uri,
      replicas: 0,
      env: { ...PATIENT, INGEST_SHED_MS: '4000' },
    });
    atEnd(() => pipeline.stop());
    const userOf = (uri: string): string => uri.replace('//', '//shop:secret@');
    const replica = await pipeline.startConsumer({
      INGEST_QUEUE_URI: `${userOf(sentinels.uri)} ${userOf(cluster.uri)}`,
      INGEST_QUEUE_PARTITIONS: String(PARTITIONS),
    });

    const [even, odd] = [idsOf(0, 'event', EVENTS), idsOf(1, 'event', EVENTS)];
    for (const id of [...even, ...odd])
      await eventually('it is accepted', async () => (await pipeline.post(event(id))).body['status'] === 'accepted');
    assert.equal((await pipeline.post(event(even[0] ?? ''))).body['duplicate'], true);
    assert.equal((await pipeline.post(event(odd[0] ?? ''))).body['duplicate'], true);
    await eventually('all have landed', async () => (await store.count()) === 2 * EVENTS);

    assert.equal(await master.length(), EVENTS);
    for (let at = 0; at < PARTITIONS; at += 1) {
      const expected = odd.filter((id) => partitionOf(id, PARTITIONS) === at).length;
      assert.ok(expected > 0);
      assert.equal(await (await cluster.masterOf(stream(at))).length(stream(at)), expected);
    }
    for (const partition of ['0', '1-0', '1-1', '1-2'])
      assert.equal(await metricOf(replica, `ingest_queue_up{partition="${partition}"}`), 1);
    const admin = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text();
    assert.match(admin, /^ingest_queue_up\{queue="ingest-a"\} 1$/m);
    assert.match(admin, /^ingest_queue_up\{queue="ingest-b"\} 1$/m);
  });
});
