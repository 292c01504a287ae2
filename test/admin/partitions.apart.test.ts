import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import type { Queue } from '../../lib/ingest/queue.ts';
import { createLog } from '../../lib/process/log.ts';
import { acceptingStreams, startQueue } from '../../lib/redis/accept/open-queue.ts';
import { PartitionedQueue } from '../../lib/ingest/partitioned-queue.ts';
import { Recorded, submitAll } from '../contract/queue.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { sqliteStore, type WarehouseStore } from '../support/warehouse-store.ts';
import { Admin } from './admin.ts';
import { SYSTEM } from '../support/system.ts';
import { createSqliteWarehouse } from '../../lib/sqlite/warehouse.ts';
import { TestCluster } from '../support/redis-cluster.ts';
import { TestSentinels } from '../support/redis-sentinel.ts';

const LOG = createLog('test', 'error').child({}, { level: 'silent' });
const HELD_BACK = 'held.back';

interface Status {
  readonly queue: {
    readonly servers: readonly { readonly partitions: readonly string[] }[];
    readonly partitions: readonly {
      readonly name: string;
      readonly events: number;
      readonly unread: number;
      readonly pending: number;
      readonly replicas: readonly unknown[];
    }[];
    readonly away: readonly string[];
  };
}

interface Topology {
  readonly uri: string;
  readonly partitions?: number;
  readonly masters: number;
  /** The streams with their servers. */
  streams(): Promise<readonly (readonly [stream: string, server: TestRedis])[]>;
}

async function openQueue({ uri, partitions = 1 }: Topology): Promise<{ queue: Queue; close: () => Promise<void> }> {
  const parts = acceptingStreams({
    ...SYSTEM,
    uri,
    partitions,
    limits: { enqueueTimeoutMs: 10_000, bodyBytesMax: 1_000 },
    durability: { level: 'warn', replicas: 0 },
    log: LOG,
  });
  const close = async (): Promise<void> => void (await Promise.all(parts.map((part) => part.close())));
  atEnd(close);
  await startQueue(uri, parts, SYSTEM.clock, 20_000);
  return { queue: new PartitionedQueue(parts, 'unavailable'), close };
}

function describeAdmin(topologyName: string, open: () => Promise<Topology>, tags: string[] = []): void {
  describe(`ingest-admin on ${topologyName}`, { tags }, () => {
    let topology: Topology;
    let store: WarehouseStore;
    let admin: Admin;
    let queue: Queue;
    let closeQueue: () => Promise<void>;
    let consumer: Program;

    const bodies = async (): Promise<string> =>
      JSON.stringify(await Promise.all((await topology.streams()).map(([stream, server]) => server.entries(stream))));
    const settled = (): Promise<Status['queue']> =>
      eventually('all is acknowledged, and the consumer has a heartbeat in each partition', async () => {
        const { queue: status } = await admin.json<Status>(0, 'status');
        const isSettled = status.partitions.every(
          ({ unread, pending, replicas }) => unread + pending === 0 && replicas.length === 1,
        );
        return isSettled && status;
      });
    const accept = async (prefix: string, count: number, more = {}): Promise<void> => {
      const events = Array.from({ length: count }, (_, at) => new Recorded(`${prefix}-${at}`, 'shop', more));
      assert.deepEqual(new Set(await submitAll(queue, events)), new Set(['accepted']));
    };

    before(async () => {
      topology = await open();
      store = sqliteStore();
      const partitions =
        topology.partitions === undefined ? {} : { INGEST_QUEUE_PARTITIONS: String(topology.partitions) };
      admin = new Admin({ uri: topology.uri }, store, partitions);
      consumer = new Program('ingest-consumer', { env: { ...admin.env, INGEST_CONSUMER_ADDR: '127.0.0.1:0' } });
      await consumer.listening();
      ({ queue, close: closeQueue } = await openQueue(topology));
      await eventually('the tables are there', () => store.events());
      await store.refuse(HELD_BACK, true);
      await accept('e', 40, { secret: 'body-of-e' });
      await accept('held', 12, { type: HELD_BACK });
      await eventually('all have landed, or stand in the quarantine', async () => {
        return (await store.count()) === 40 && (await store.quarantine()).length === 12;
      });
    });
    // If they kept running, the consumer and the queue would look for this Sentinel's master during the next
    // topology's tests.
    after(() => Promise.all([consumer.kill(), closeQueue()]));

    it('shows every partition and every server, and finds each event in its stream', async () => {
      const { servers, partitions, away } = await settled();
      const names = (await topology.streams()).map(([stream]) => stream);
      assert.deepEqual(
        partitions.map(({ name }) => name),
        names,
      );
      assert.equal(
        partitions.reduce((sum, { events }) => sum + events, 0),
        52,
      );
      assert.equal(servers.length, topology.masters);
      assert.deepEqual(servers.flatMap((server) => server.partitions).toSorted(), names.toSorted());
      assert.deepEqual(away, []);
      for (const id of ['e-0', 'held-5']) {
        const found = await admin.json<{ queue: { stream: string; state: string } }>(0, 'event', id);
        assert.ok(names.includes(found.queue.stream) && found.queue.state === 'done', JSON.stringify(found));
      }
    });

    it('replays rows of every partition until they have landed', async () => {
      await store.refuse(HELD_BACK, false);
      const { landed } = await admin.json<{ landed: number }>(0, 'quarantine', 'replay', '--all');
      assert.equal(landed, 12);
      assert.deepEqual([await store.count(), (await store.quarantine()).length], [52, 0]);
    });

    it('erases an event in every partition that holds a copy', async () => {
      const secret = JSON.stringify({ id: 'e-7', type: 'a', secret: 'copy-of-e-7' });
      for (const [stream, server] of await topology.streams())
        await server.command('XADD', stream, '*', 'producer', 'shop', 'body', secret);
      const copies = 1 + (await topology.streams()).length;
      await eventually('the copies are refused', async () => (await store.quarantine()).length === copies - 1);
      const erased = await admin.json<{ queue: number; warehouse: number }>(0, 'erase', 'e-7');
      assert.deepEqual([erased.queue, erased.warehouse], [copies, 1]);
      assert.ok(!(await bodies()).includes('copy-of-e-7'));
      assert.equal((await bodies()).split('body-of-e').length - 1, 39, 'and no other event');
    });

    it('lands the events of every partition again after the warehouse lost them', async () => {
      const lengths = await Promise.all((await topology.streams()).map(([stream, server]) => server.length(stream)));
      const held = lengths.reduce((sum, length) => sum + length, 0);
      await settled();
      {
        using warehouse = new DatabaseSync(store.uri.slice('sqlite:'.length), { timeout: 5_000 });
        warehouse.exec('DELETE FROM events');
      }
      const found = await admin.json<{ entries: number; missing: number }>(1, 'reconcile');
      assert.deepEqual([found.entries, found.missing], [held, held]);
      // An event on two streams lands once, so the second stream may lack fewer.
      await admin.json(0, 'reconcile', '--land');
      assert.equal(await store.count(), 52);
      const { landed, erased } = await admin.json<{ landed: number; erased: number }>(0, 'reconcile');
      assert.equal(landed + erased, held);
    });
  });
}

describeAdmin('two queues', async () => {
  const servers = [await TestRedis.start(), await TestRedis.start()];
  const streams = servers.map((server, at) => [at === 0 ? 'ingest-a' : 'ingest-b', server] as const);
  const uri = `dispatcher://${servers.map(({ port }) => `127.0.0.1:${port}`).join()}`;
  return { uri, masters: 2, streams: () => Promise.resolve(streams) };
});

describeAdmin(
  'a master that Sentinel watches',
  async () => {
    const sentinels = await TestSentinels.start({ downAfterMs: 60_000 });
    return { uri: sentinels.uri, masters: 1, streams: async () => [['ingest', await sentinels.master()]] };
  },
  ['long'],
);

const namesOf = (partitions: number): string[] => Array.from({ length: partitions }, (_, at) => `ingest-${at}`);

describeAdmin(
  'a Redis Cluster',
  async () => {
    const [cluster, partitions] = [await TestCluster.start(), 4];
    const streams = () =>
      Promise.all(namesOf(partitions).map(async (stream) => [stream, await cluster.masterOf(stream)] as const));
    return { uri: cluster.uri, partitions, masters: 3, streams };
  },
  ['long'],
);

describe('ingest-admin on a Redis Cluster that lacks the master of the metadata', { tags: ['long'] }, () => {
  it('shows the partitions that answer, names the others, and exits with 4', async () => {
    const cluster = await TestCluster.start();
    const store = sqliteStore();
    await createSqliteWarehouse({ path: store.uri.slice('sqlite:'.length) }).prepare();
    const admin = new Admin(cluster, store, { INGEST_QUEUE_PARTITIONS: '8' });
    assert.equal((await admin.run('erase', 'none', '--yes')).code, 1, 'the metadata is there now');
    const other = await new Admin(cluster, store, { INGEST_QUEUE_PARTITIONS: '5' }).run('status');
    assert.equal(other.code, 2);
    assert.match(other.out, /8 partitions.* 5 partitions/);
    const away = await cluster.masterOf('ingest');
    const names = namesOf(8);
    const masters = await Promise.all(names.map((name) => cluster.masterOf(name)));
    for (const node of [cluster.nodes[cluster.nodes.indexOf(away) + 3], away]) await node?.signal('SIGKILL');
    const { code, out } = await admin.run('status', '--json');
    assert.equal(code, 4);
    const { queue } = JSON.parse(out) as Status;
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

describe("a Redis Cluster with equal parts, after the page's command", { tags: ['long'] }, () => {
  it('has three, three and two of the eight partitions on its masters', async () => {
    const cluster = await TestCluster.start({ firstSlots: [0, 5_461, 10_923, 16_384] });
    const names = namesOf(8);
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
    const [, line = ''] = /\n *(redis-cli --cluster reshard .*)\n/.exec(readFileSync('deploy/scale.md', 'utf8')) ?? [];
    const values = { 'HOST:PORT': `127.0.0.1:${first.port}`, FIRST: String(ids[0]), SECOND: String(ids[1]) };
    const command = line.replaceAll(/HOST:PORT|\bFIRST\b|\bSECOND\b/g, (name) => values[name as keyof typeof values]);
    await promisify(execFile)('sh', ['-c', command]);
    await eventually('all nodes know', async () => (await spread()).join() === '3,3,2');
  });
});
