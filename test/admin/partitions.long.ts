// ingest-admin on a Redis Cluster and behind Sentinel.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { TestCluster } from '../support/redis-cluster.ts';
import { TestSentinels } from '../support/redis-sentinel.ts';
import { sqliteStore } from '../support/warehouse-store.ts';
import { Admin } from './admin.ts';
import { describeAdmin, type Status, type Topology } from './partitions.ts';

const PARTITIONS = 4;

describeAdmin('a master that Sentinel watches', async () => {
  const sentinels = await TestSentinels.start();
  return {
    uris: [sentinels.uri],
    servers: sentinels.servers,
    names: ['ingest'],
    masters: 1,
    streams: async () => [['ingest', await sentinels.master()]],
  };
});

const clusterTopology = (cluster: TestCluster): Topology => {
  const names = Array.from({ length: PARTITIONS }, (_, at) => `ingest-${at}`);
  return {
    uris: [cluster.uri],
    partitions: PARTITIONS,
    servers: cluster.nodes,
    names,
    masters: 3,
    streams: () => Promise.all(names.map(async (stream) => [stream, await cluster.masterOf(stream)] as const)),
  };
};

let cluster: TestCluster;
describeAdmin('a Redis Cluster', async () => clusterTopology((cluster = await TestCluster.start())));

describe('ingest-admin on a Redis Cluster that lacks a master', () => {
  it('tells which partitions are away, exits with 4, and with 2 where the number of partitions is another', async () => {
    const store = sqliteStore();
    const partitions = { INGEST_QUEUE_PARTITIONS: String(PARTITIONS) };
    const admin = new Admin(cluster, { uri: store.uri }, partitions);
    const other = await new Admin(cluster, store, { INGEST_QUEUE_PARTITIONS: '5' }).run('status');
    assert.equal(other.code, 2);
    assert.match(other.out, /4 partitions.* 5 partitions/);

    const away = await cluster.masterOf('ingest-2');
    const replica = cluster.nodes[cluster.nodes.indexOf(away) + 3];
    for (const node of [replica, away]) await node?.signal('SIGKILL');
    const { code, out } = await admin.run('status', '--json');
    assert.equal(code, 4);
    const { queue } = JSON.parse(out) as { queue: Status };
    assert.match(queue.away.join(), /^ingest-2: the queue does not answer/);
    assert.deepEqual(
      queue.partitions.map(({ name }) => name),
      ['ingest-0', 'ingest-1', 'ingest-3'],
    );
    assert.match((await admin.run('status')).out, /away: ingest-2: [^]*ingest-3 +\d+ /);
  });
});
