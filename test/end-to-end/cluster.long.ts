import { before, describe, it } from 'node:test';
import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { PATIENT, event } from '../support/gateway.ts';
import { Pipeline, metricOf, readiness } from '../support/pipeline.ts';
import { TestCluster } from '../support/redis-cluster.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { sqliteStore, type WarehouseStore } from '../support/warehouse-store.ts';
import { partitionOf } from '../../lib/ingest/partition.ts';
import { ProducerLoad } from '../support/load.ts';

const PARTITIONS = 4;
const stream = (partition: number): string => `ingest-${partition}`;

let cluster: TestCluster;
let store: WarehouseStore;
let pipeline: Pipeline;
before(async () => {
  cluster = await TestCluster.start();
  store = sqliteStore();
  pipeline = await Pipeline.start({
    queueUri: cluster.uri,
    warehouseUri: store.uri,
    env: { INGEST_QUEUE_PARTITIONS: String(PARTITIONS), ...PATIENT },
  });
  atEnd(() => pipeline.stop());
  // A lookup returns 503 until the warehouse is ready.
  for (const { program } of pipeline.replicas) await program.line(/the warehouse is ready/);
});

describe('a queue on a Redis Cluster', () => {
  it('distributes events over its partitions, finds them, recognizes repeats, and lands each once', async () => {
    const ids = Array.from({ length: 40 }, (_, at) => `spread-${at}`);
    for (const id of ids) assert.equal((await pipeline.post(event(id))).status, 202);
    for (const id of ids.slice(0, 8)) {
      assert.equal((await pipeline.post(event(id))).body['duplicate'], true);
      assert.equal((await pipeline.find(id)).status, 200);
    }
    await eventually('all have landed', async () => (await store.count()) === ids.length);
    const held = await Promise.all(
      Array.from({ length: PARTITIONS }, async (_, at) => (await cluster.masterOf(stream(at))).length(stream(at))),
    );
    assert.deepEqual(
      held,
      held.map((_, at) => ids.filter((id) => partitionOf(id, PARTITIONS) === at).length),
    );
    const [replica = assert.fail()] = pipeline.replicas;
    for (let at = 0; at < PARTITIONS; at += 1) {
      assert.equal(await metricOf(replica, `ingest_queue_up{partition="${at}"}`), 1);
      await eventually(
        'the lag is told',
        async () => (await metricOf(replica, `ingest_queue_lag_events{partition="${at}"}`)) === 0,
      );
    }
    assert.equal(await (await cluster.masterOf('ingest')).command('HGET', '{ingest}:queue', 'partitions'), '4');
  });

  it('with one master killed refuses only the events of its partitions, until the fail-over', async () => {
    await cluster.whole();
    const victim = await cluster.masterOf(stream(2));
    const masters = await Promise.all(Array.from({ length: PARTITIONS }, (_, at) => cluster.masterOf(stream(at))));
    const away = masters.flatMap((master, at) => (master === victim ? [at] : []));
    const others = masters.flatMap((master, at) => (master === victim ? [] : [at]));
    const idOf = (partition: number, prefix: string): string =>
      Array.from({ length: 1_000 }, (_, at) => `${prefix}-${at}`).find(
        (id) => partitionOf(id, PARTITIONS) === partition,
      ) ?? assert.fail();
    await victim.signal('SIGKILL');
    // Each partition has its own probe, so readiness may not name all of them at the same time.
    await eventually('readiness names the partitions', async () => {
      const { status, body } = await pipeline.ready();
      return status === 200 && isDeepStrictEqual(body['unavailable'], away);
    });
    for (const at of away) {
      const sent = performance.now();
      const { status, body } = await pipeline.post(event(idOf(at, 'killed')));
      // A 202 means that the fail-over was faster than the request.
      if (status === 202) continue;
      assert.deepEqual([status, body['code']], [503, 'QUEUE_UNAVAILABLE']);
      assert.ok(
        performance.now() - sent < Number(PATIENT.INGEST_ENQUEUE_TIMEOUT_MS),
        'without waiting for the timeout',
      );
    }
    for (const at of others) assert.equal((await pipeline.post(event(idOf(at, 'undisturbed')))).status, 202);
    for (const at of away)
      await eventually(
        'a replica has taken over',
        async () => (await pipeline.post(event(idOf(at, 'later')))).status === 202,
      );
    await eventually('nothing is unavailable', async () => {
      const { body } = await pipeline.ready();
      return body['status'] === 'ready' && body['unavailable'] === undefined;
    });
    await eventually('what came after it lands', async () => {
      const ids = new Set((await store.events()).map(({ id }) => id));
      return away.every((at) => ids.has(idOf(at, 'later')));
    });
    const [replica = assert.fail()] = pipeline.replicas;
    await eventually('the consumer is ready', async () => {
      const { status, body } = await readiness(replica);
      return status === 200 && body['unavailable'] === undefined;
    });
    await victim.start();
    await cluster.whole();
  });

  it('loses and duplicates nothing while a slot moves to another master under load', async () => {
    const load = new ProducerLoad(pipeline, 'moved');
    await load.more(100);
    const from = await cluster.masterOf(stream(0));
    const masters = await Promise.all(Array.from({ length: PARTITIONS }, (_, at) => cluster.masterOf(stream(at))));
    const to = masters.find((node) => node !== from) ?? assert.fail();
    await cluster.reshard(from, to);
    assert.equal(await cluster.masterOf(stream(0)), to);
    const before = await to.length(stream(0));
    await load.more(100);
    await eventually('its partition takes events there', async () => (await to.length(stream(0))) > before);
    await load.stop();
    await load.assertLanded(store);
  });
});
