import { before, describe, it } from 'node:test';
import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { PATIENT, event } from '../support/gateway.ts';
import { Pipeline } from '../support/pipeline.ts';
import { TestCluster } from '../support/redis-cluster.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { sqliteStore, type WarehouseStore } from '../support/warehouse-store.ts';
import { partitionOf } from '../../lib/ingest/partition.ts';
import { ProducerLoad } from '../support/load.ts';

const STREAMS = ['ingest-0', 'ingest-1', 'ingest-2', 'ingest-3'] as const;

let cluster: TestCluster;
let store: WarehouseStore;
let pipeline: Pipeline;
before(async () => {
  [cluster, store] = [await TestCluster.start(), sqliteStore()];
  const env = { INGEST_QUEUE_PARTITIONS: String(STREAMS.length), ...PATIENT };
  pipeline = await Pipeline.start({ queueUri: cluster.uri, warehouseUri: store.uri, env });
  atEnd(() => pipeline.stop());
});

const masters = () => Promise.all(STREAMS.map((stream) => cluster.masterOf(stream)));

describe('a queue on a Redis Cluster', () => {
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
    for (const at of away)
      await eventually(
        'a replica has taken over',
        async () => (await pipeline.post(event(idOf(at, 'later')))).status === 202,
      );
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
