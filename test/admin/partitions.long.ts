// ingest-admin on a Redis Cluster and behind Sentinel.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { describe, it } from 'node:test';
import { createSqliteWarehouse } from '../../lib/sqlite/warehouse.ts';
import { TestCluster } from '../support/redis-cluster.ts';
import { TestSentinels } from '../support/redis-sentinel.ts';
import { eventually } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';
import { Admin } from './admin.ts';
import { describeAdmin, type Status, type Topology } from './partitions.ts';

const PARTITIONS = 4;

describeAdmin('a master that Sentinel watches', async () => {
  const sentinels = await TestSentinels.start({ downAfterMs: 60_000 });
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

describe('ingest-admin on a Redis Cluster that lacks the master of the metadata', () => {
  it('shows the partitions that live, names the others, and exits with 4', async () => {
    const cluster = await TestCluster.start();
    const store = sqliteStore();
    const warehouse = createSqliteWarehouse({ path: store.uri.slice('sqlite:'.length) });
    await warehouse.prepare();
    await warehouse.close();
    const admin = new Admin(cluster, store, { INGEST_QUEUE_PARTITIONS: '8' });
    assert.equal((await admin.run('land-again', '--since', '1h', '--yes')).code, 1, 'the metadata is there now');
    const away = await cluster.masterOf('ingest');
    const names = Array.from({ length: 8 }, (_, at) => `ingest-${at}`);
    const masters = await Promise.all(names.map((name) => cluster.masterOf(name)));
    for (const node of [cluster.nodes[cluster.nodes.indexOf(away) + 3], away]) await node?.signal('SIGKILL');
    const { code, out } = await admin.run('status', '--json');
    assert.equal(code, 4);
    const { queue } = JSON.parse(out) as { queue: Status };
    assert.deepEqual(
      queue.partitions.map(({ name }) => name),
      names.filter((_, at) => masters[at] !== away),
    );
    assert.deepEqual(
      queue.away.map((reason) => reason.split(':')[0]),
      names.filter((_, at) => masters[at] === away),
    );
    const event = await admin.run('event', 'one');
    assert.equal(event.code, 4);
    assert.match(event.err, /metadata cannot be read/);
  });
});

describe("a Redis Cluster with equal parts, after the page's command", () => {
  it('has three, three and two of the eight partitions on its masters', async () => {
    const cluster = await TestCluster.start({ firstSlots: [0, 5_461, 10_923, 16_384] });
    const names = Array.from({ length: 8 }, (_, at) => `ingest-${at}`);
    const spread = async (): Promise<number[]> => {
      const masters = await Promise.all(names.map((name) => cluster.masterOf(name)));
      return cluster.nodes
        .map((node) => masters.filter((master) => master === node).length)
        .filter((count) => count > 0);
    };
    assert.deepEqual(await spread(), [4, 2, 2]);
    const [first, second] = cluster.nodes;
    assert.ok(first !== undefined && second !== undefined);
    const ids = await Promise.all([first, second].map((node) => node.command('CLUSTER', 'MYID')));
    const [, line = ''] = /\n *(redis-cli --cluster reshard .*)\n/.exec(readFileSync('deploy/README.md', 'utf8')) ?? [];
    const values = { 'HOST:PORT': `127.0.0.1:${first.port}`, FIRST: String(ids[0]), SECOND: String(ids[1]) };
    const command = line.replaceAll(/HOST:PORT|\bFIRST\b|\bSECOND\b/g, (name) => values[name as keyof typeof values]);
    await promisify(execFile)('sh', ['-c', command]);
    await eventually('all nodes know', async () => (await spread()).join() === '3,3,2');
  });
});

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
