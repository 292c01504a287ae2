// Faults of a real server and its settings. The simulation has those of the network.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { QueueFailed } from '../../lib/ingest/queue-admin.ts';
import { queueAddress } from '../../lib/process/queue-uri.ts';
import type { StreamQueue } from '../../lib/redis/accept/stream-queue.ts';
import { StreamReader } from '../../lib/redis/read/stream-reader.ts';
import { ClusterMap, type ClusterAddress } from '../../lib/redis/server/cluster-map.ts';
import { RedisConnection } from '../../lib/redis/server/connection.ts';
import { GROUP, STREAM } from '../../lib/redis/stream/layout.ts';
import { Recorded, submitAll } from '../contract/queue.ts';
import { openAdmin, openQueue, openReader, partitionAt, QUIET_LOG as log } from '../support/partition.ts';
import { freePort, TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';

const reasonOf = (queue: StreamQueue): string => {
  const state = queue.state();
  return state.available ? '' : state.reason;
};

describe('a fault of the queue', { concurrency: true }, () => {
  it('reports a changed password, and recovers with the right one', async (t) => {
    const redis = await TestRedis.start([], { password: 'old' });
    const after = t.after.bind(t);
    const queue = await openQueue(`redis://:old@127.0.0.1:${redis.port}`, { after });
    await redis.command('CONFIG', 'SET', 'requirepass', 'new');
    assert.deepEqual(await submitAll(queue, [new Recorded('kept')]), ['accepted'], 'on its connection');
    await redis.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await eventually('the password is refused', () => reasonOf(queue).startsWith('WRONGPASS'));
    await redis.command('CONFIG', 'SET', 'requirepass', 'old');
    await eventually('it is accepted', () => queue.state().available);
  });

  it('follows MOVED to the node that has the slot', async (t) => {
    const nodes = await Promise.all(
      [1, 2].map(async () => {
        const bus = await freePort();
        const clustered = ['--cluster-enabled', 'yes', '--appendonly', 'no', '--cluster-port', String(bus)];
        return { bus, redis: await TestRedis.start(clustered) };
      }),
    );
    const [one, two] = nodes as [(typeof nodes)[0], (typeof nodes)[0]];
    await one.redis.command('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
    await one.redis.command('CLUSTER', 'MEET', '127.0.0.1', String(two.redis.port), String(two.bus));
    const slot = String(await one.redis.command('CLUSTER', 'KEYSLOT', STREAM));
    const address = queueAddress(`redis+cluster://127.0.0.1:${one.redis.port}`) as ClusterAddress;
    const uri = new ClusterMap(address, SYSTEM).lookup(STREAM);
    const connection = new RedisConnection({ ...SYSTEM, uri, name: 'test', log });
    t.after(() => connection.close());
    connection.open();
    await eventually('it is connected', () => connection.ready);
    const [from, to] = (await Promise.all(nodes.map(({ redis: node }) => node.command('CLUSTER', 'MYID')))).map(String);
    const set = (node: TestRedis, ...state: string[]): Promise<unknown> =>
      node.command('CLUSTER', 'SETSLOT', slot, ...state);
    // An import gives the new owner the newest epoch. Otherwise the old one may claim the slot again.
    await eventually('it knows the other node', () => set(two.redis, 'IMPORTING', from ?? ''));
    for (const { redis } of [two, one]) await eventually('it knows the other node', () => set(redis, 'NODE', to ?? ''));
    await eventually('the other node has it', () => two.redis.command('XADD', STREAM, '1-1', 'a', 'b'));
    await eventually('the connection has followed', async () => (await connection.send(['XLEN', STREAM])) === 1);
  });
});

describe('the step after a first failure', { concurrency: true }, () => {
  it('connects again if the first connection of ingest-admin or of a consumer failed', async (t) => {
    const redis = await TestRedis.start();
    await redis.signal('SIGKILL');
    const admin = openAdmin(t, redis.uri);
    const reader = new StreamReader({ ...SYSTEM, name: 'reader', part: partitionAt(redis.uri), log });
    t.after(() => reader.close());
    await Promise.all([
      assert.rejects(admin.status(), QueueFailed),
      assert.rejects(reader.join()),
      reader.open(100).then((opened) => assert.equal(opened, false)),
    ]);
    await redis.start();
    assert.equal((await admin.status()).partition.events, 0);
    assert.equal(await reader.open(10_000), true);
    assert.equal(await reader.register(1), true);
    await reader.join();
    assert.deepEqual(await reader.read(1, 0, 1), []);
  });

  it('claims the entries of a dead member after a first claim was refused', async (t) => {
    const redis = await TestRedis.start();
    const reader = await openReader(t, redis.uri);
    await redis.command('XADD', STREAM, '*', 'producer', 'p', 'body', '{"id":"held"}');
    await redis.command('XREADGROUP', 'GROUP', GROUP, 'dead', 'STREAMS', STREAM, '>');
    await redis.command('ACL', 'SETUSER', 'default', '-xclaim');
    await assert.rejects(reader.read(10, 0, 0));
    await redis.command('ACL', 'SETUSER', 'default', '+xclaim');
    await eventually('it is claimed', async () => (await reader.read(10, 0, 0)).length === 1);
  });

  it('sends its heartbeat again after one was refused', async (t) => {
    const redis = await TestRedis.start();
    const replicas = `{${STREAM}}:replicas`;
    const reader = await openReader(t, redis.uri);
    assert.equal(await reader.register(1), true);
    await redis.command('SET', replicas, 'another type');
    await eventually('a heartbeat was refused', async () =>
      String(await redis.command('INFO', 'errorstats')).includes('errorstat_WRONGTYPE'),
    );
    await redis.command('DEL', replicas);
    await eventually('it is counted again', async () => (await redis.command('ZCARD', replicas)) === 1);
  });
});
