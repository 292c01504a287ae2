// Queues on a Redis Cluster and behind sentinels. test/redis has the refusals: a wrong password, authority, master name
// or node, and missing rights.
import { describe, it } from 'node:test';
import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { PATIENT, event } from '../support/gateway.ts';
import { ProducerLoad } from '../support/load.ts';
import { Pipeline } from '../support/pipeline.ts';
import { Pki } from '../support/pki.ts';
import { Program } from '../support/program.ts';
import { TestCluster } from '../support/redis-cluster.ts';
import { clusterRule } from '../support/redis-rights.ts';
import { TestSentinels } from '../support/redis-sentinel.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';
import { partitionOf } from '../../lib/ingest/partition.ts';

const STREAMS = ['ingest-0', 'ingest-1', 'ingest-2', 'ingest-3'] as const;
const PARTITIONS = { INGEST_QUEUE_PARTITIONS: String(STREAMS.length) };

describe('a queue on a Redis Cluster', async () => {
  const [cluster, store] = [await TestCluster.start(), sqliteStore()];
  const env = { ...PARTITIONS, ...PATIENT };
  const pipeline = await Pipeline.start({ queueUri: cluster.uri, warehouseUri: store.uri, env });
  atEnd(() => pipeline.stop());
  const masters = () => Promise.all(STREAMS.map((stream) => cluster.masterOf(stream)));

  it('loses no event of a move from one server under load, and lands one row for each id, even if it is sent to both', async () => {
    const old = await TestRedis.start();
    const before = await Pipeline.start({
      ...{ queueUri: old.uri, warehouseUri: store.uri, gatewayWarehouseUri: '' },
      env: { ...PATIENT },
    });
    atEnd(() => before.stop());
    const first = new ProducerLoad(before, 'first');
    await first.more(100);
    const second = new ProducerLoad(pipeline, 'second');
    await second.more(100);
    await first.stop();
    const length = await old.length();
    for (const id of [...first.accepted.keys()].slice(0, 50))
      assert.equal((await pipeline.post(event(id))).status, 202, id);
    await second.stop();
    assert.equal(await old.length(), length, 'nothing new comes to the old queue');
    await first.assertLanded(store);
    await second.assertLanded(store);
    await eventually('ingest-admin says that the old queue is empty', async () => {
      const uris = { INGEST_QUEUE_URI: old.uri, INGEST_WAREHOUSE_URI: store.uri };
      const status = new Program('ingest-admin', { env: uris, args: ['status', '--json'] });
      assert.equal(await status.ended, 0, status.output);
      const { queue } = JSON.parse(status.output) as { queue: { partitions: { unread: number; pending: number }[] } };
      return queue.partitions.every(({ unread, pending }) => unread === 0 && pending === 0);
    });
  });

  it('with one master killed refuses only the events of its partitions, until the fail-over', async () => {
    const nodes = await masters();
    const victim = nodes[2] ?? assert.fail();
    const away = nodes.flatMap((node, at) => (node === victim ? [at] : []));
    const idOf = (partition: number, prefix: string): string =>
      Array.from({ length: 1_000 }, (_, at) => `${prefix}-${at}`).find(
        (id) => partitionOf(id, STREAMS.length) === partition,
      ) ?? assert.fail();
    await victim.signal('SIGKILL');
    // Each partition has its own probe, so readiness may not name all of them at the same time.
    await eventually('readiness names the partitions', async () => {
      const { status, body } = await pipeline.ready();
      return status === 200 && isDeepStrictEqual(body['unavailable'], away);
    });
    for (const at of STREAMS.keys()) {
      const sentMs = performance.now();
      const { status, body } = await pipeline.post(event(idOf(at, 'killed')));
      // A 202 for a partition of the killed master means that the fail-over was faster than the request.
      if (status === 202) continue;
      assert.ok(away.includes(at));
      assert.deepEqual([status, body['code']], [503, 'QUEUE_UNAVAILABLE']);
      assert.ok(performance.now() - sentMs < Number(PATIENT.INGEST_ENQUEUE_TIMEOUT_MS), 'it waited for the timeout');
    }
    const isAccepted = async (at: number): Promise<boolean> =>
      (await pipeline.post(event(idOf(at, 'later')))).status === 202;
    for (const at of away) await eventually('a replica has taken over', () => isAccepted(at));
    await eventually('what came after it lands', async () => {
      const ids = new Set((await store.events()).map(({ id }) => id));
      return away.every((at) => ids.has(idOf(at, 'later')));
    });
    await victim.start();
    await cluster.whole();
  });

  it('loses and duplicates nothing while a slot moves to another master under load', async () => {
    const load = new ProducerLoad(pipeline, 'moved');
    await load.more(100);
    const from = await cluster.masterOf(STREAMS[0]);
    const to = (await masters()).find((node) => node !== from) ?? assert.fail();
    await cluster.reshard(from, to);
    assert.equal(await cluster.masterOf(STREAMS[0]), to);
    const before = await to.length(STREAMS[0]);
    await load.more(100);
    await eventually('its partition takes events there', async () => (await to.length(STREAMS[0])) > before);
    await load.stop();
    await load.assertLanded(store);
  });
});

describe('over TLS, events that a replica acknowledges are accepted, found and landed', async () => {
  const pki = await Pki.create();

  async function assertLands(uris: { readonly gateway: string; readonly consumer: string }): Promise<void> {
    const store = sqliteStore();
    const env = { ...PATIENT, INGEST_TLS_SERVER_CA: pki.path('ca.pem'), INGEST_QUEUE_REPLICAS: '1' };
    const pipeline = await Pipeline.start({ queueUri: uris.gateway, warehouseUri: store.uri, replicas: 0, env });
    const { program } = await pipeline.startConsumer({ INGEST_QUEUE_URI: uris.consumer });
    const ids = Array.from({ length: 20 }, (_, at) => `secured-${at}`);
    for (const id of ids)
      await eventually('it is accepted', async () => (await pipeline.post(event(id))).status === 202);
    assert.equal((await pipeline.post(event('secured-0'))).body['duplicate'], true);
    await eventually('all have landed', async () => (await store.count()) === ids.length);
    assert.equal((await pipeline.find('secured-0')).status, 200);
    await pipeline.stop();
    for (const { output } of [pipeline.gateway, program]) assert.doesNotMatch(output, /secret/);
  }

  it('behind sentinels with a password', async () => {
    const { uri } = await TestSentinels.start({ replicas: 1, pki, password: 'secret' });
    await assertLands({ gateway: uri, consumer: uri });
  });

  it('in a Redis Cluster with the documented users', async () => {
    const cluster = await TestCluster.start({ pki });
    for (const node of cluster.nodes)
      for (const program of ['ingest-gateway', 'ingest-consumer'])
        await node.command('ACL', 'SETUSER', program, 'reset', ...clusterRule(program));
    const [gateway, consumer] = [cluster.uriOf('ingest-gateway:secret@'), cluster.uriOf('ingest-consumer:secret@')];
    await assertLands({ gateway, consumer });
  });
});
