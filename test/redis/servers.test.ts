import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { describe, it } from 'node:test';
import { queueAddress } from '../../lib/process/queue-uri.ts';
import { askOnce } from '../../lib/redis/server/ask-once.ts';
import type { MasterLookup } from '../../lib/redis/server/connection.ts';
import type { Server } from '../../lib/redis/wire/values.ts';
import { ClusterMap, type ClusterAddress } from '../../lib/redis/server/cluster-map.ts';
import { aofRewrite, DurabilityCheck, durabilityFaults, replicationFaults } from '../../lib/redis/server/durability.ts';
import { assertMaster, isNotMaster, serverInfo, type ServerInfo } from '../../lib/redis/server/server-info.ts';
import { sentinelLookup } from '../../lib/redis/server/sentinel-lookup.ts';
import { RedisError } from '../../lib/redis/wire/errors.ts';
import { Recorded, submitAll } from '../contract/queue.ts';
import { startSentinel } from '../support/redis-sentinel.ts';
import { logged, openReplicated, QUIET_LOG } from '../support/partition.ts';
import { freePort, TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';

function addressOf(uri: string): ClusterAddress {
  const address = queueAddress(uri);
  if (typeof address === 'string' || address.kind === 'server' || address.kind === 'dispatcher')
    throw new Error(`${uri} names no list of servers`);
  return address;
}

const hostsOf = (ports: readonly number[]): string => ports.map((port) => `127.0.0.1:${port}`).join();
const uriOf = (port: number): string => `redis://127.0.0.1:${port}`;

describe('the master of a slot', () => {
  const clustered = ['--cluster-enabled', 'yes', '--appendonly', 'no'];

  async function node(announced?: number): Promise<TestRedis> {
    const place = ['--cluster-announce-ip', '127.0.0.1', '--cluster-announce-port', String(announced)];
    const bus = ['--cluster-port', String(await freePort())];
    const redis = await TestRedis.start([...clustered, ...bus, ...(announced === undefined ? [] : place)]);
    await redis.command('CLUSTER', 'ADDSLOTS', String(await redis.command('CLUSTER', 'KEYSLOT', 'ingest-0')));
    return redis;
  }

  const lookupBy = (...seeds: readonly TestRedis[]): MasterLookup =>
    new ClusterMap(addressOf(`redis+cluster://${hostsOf(seeds.map(({ port }) => port))}`), SYSTEM).lookup('ingest-0');

  /** Asks repeatedly, because a lookup reuses its last reply for a moment. */
  const becomes = (lookup: MasterLookup, uri: string): Promise<unknown> =>
    eventually(uri, async () => (await lookup.find(undefined)) === uri);

  it('finds a master by the nodes of the last reply if the nodes of the URI are gone', async () => {
    const other = await node();
    const [seed, last] = [await node(other.port), await freePort()];
    const lookup = lookupBy(seed);
    assert.equal(await lookup.find(undefined), uriOf(other.port));
    await seed.signal('SIGKILL');
    await other.command('CONFIG', 'SET', 'cluster-announce-ip', '127.0.0.1');
    await other.command('CONFIG', 'SET', 'cluster-announce-port', String(last));
    await becomes(lookup, uriOf(last));
  });

  it('finds the master of a cluster whose nodes were all replaced, by the nodes of the URI', async () => {
    const [first, second] = [await freePort(), await freePort()];
    const seed = await node(first);
    const lookup = lookupBy(seed);
    assert.equal(await lookup.find(undefined), uriOf(first));
    // No server listens on either announced port, so only the node in the URI can report the change.
    await seed.command('CONFIG', 'SET', 'cluster-announce-port', String(second));
    await becomes(lookup, uriOf(second));
    // Two isolated nodes each claim the slot. Neither misleads for long.
    const either = lookupBy(seed, await node(first));
    for (const port of [first, second, first]) await becomes(either, uriOf(port));
  });

  it('takes an empty address for the node that was asked, follows MOVED, and fails without a node', async () => {
    const [alone, dead] = [await node(), await freePort()];
    const address = addressOf(`redis+cluster://shop:secret@${hostsOf([dead, alone.port])}`);
    await alone.command('ACL', 'SETUSER', 'shop', 'on', '>secret', '~*', '+@all');
    const lookup = new ClusterMap(address, SYSTEM).lookup('ingest-0');
    const secured = (place: string): string => `redis://shop:secret@${place}`;
    assert.equal(await lookup.find(undefined), secured(`127.0.0.1:${alone.port}`));
    assert.equal(await lookup.find(new RedisError('MOVED 7 10.0.0.1:6380')), secured('10.0.0.1:6380'));
    assert.equal(await lookup.find(new RedisError('MOVED 7 fd00::1:6380')), secured('[fd00::1]:6380'));
    await alone.command('CLUSTER', 'FLUSHSLOTS');
    const failsWith = (words: RegExp): Promise<unknown> =>
      eventually(String(words), () =>
        assert.rejects(lookup.find(undefined), words).then(
          () => true,
          () => false,
        ),
      );
    await failsWith(/^Error: no node of the cluster serves the slot of ingest-0$/);
    await alone.signal('SIGKILL');
    await failsWith(/ECONNREFUSED/);
  });

  it('is not found if the nodes are to be reached by host names that they do not announce', async () => {
    const alone = await node();
    await alone.command('CONFIG', 'SET', 'cluster-preferred-endpoint-type', 'hostname');
    const lookup = lookupBy(alone);
    for (const cause of [undefined, new RedisError('MOVED 7 ?:6380')])
      await assert.rejects(lookup.find(cause), /^Error: no node of the cluster serves the slot of ingest-0$/);
    await alone.command('CONFIG', 'SET', 'cluster-announce-hostname', 'localhost');
    await becomes(lookup, `redis://localhost:${alone.port}`);
  });
});

describe('the master that Sentinel watches', () => {
  const nowhere = (ports: readonly number[], name = 'the-master'): MasterLookup =>
    sentinelLookup(addressOf(`redis+sentinel://user:secret@${hostsOf(ports)}/${name}?db=2`), SYSTEM);

  it('is the one that most of the replying sentinels name', async () => {
    const [master, old, dead] = [await freePort(), await freePort(), await freePort()];
    const [cutOff, one, two] = await Promise.all([startSentinel(old), startSentinel(master), startSentinel(master)]);
    const found = `redis://user:secret@127.0.0.1:${master}/2`;
    for (const { port } of [cutOff, one, two])
      await eventually('it answers', () =>
        nowhere([port])
          .find(undefined)
          .catch(() => false as const),
      );
    for (const { child } of [one, two]) child.kill('SIGSTOP');
    const asking = nowhere([cutOff.port, one.port, two.port]).find(undefined);
    const half = nowhere([cutOff.port, one.port]).find(undefined);
    const settled = Promise.race([asking, half, SYSTEM.clock.sleep(100)]);
    assert.equal(await settled, undefined, 'one of three settles nothing, nor does one of two');
    for (const { child } of [one, two]) child.kill('SIGCONT');
    assert.equal(await asking, found);
    await half;
    const lookup = nowhere([dead, cutOff.port, one.port, two.port, dead]);
    const asked = lookup.find(undefined);
    assert.equal(lookup.find(undefined), asked, 'asked once for all who ask together');
    assert.equal(await asked, found);
    assert.ok((lookup.watchMs ?? 0) > 0, 'a planned fail-over is looked for');
    // A sentinel's answer tells an operator more than a failed connection does, so the error reports the answer.
    await assert.rejects(nowhere([dead, one.port], 'another').find(undefined), {
      message: 'the sentinels know no master named another',
    });
    await assert.rejects(nowhere([dead]).find(undefined), /^Error: no sentinel answers \(.*ECONNREFUSED/);
  });

  it('is never taken from a reply that names no server', async () => {
    const replies = [
      '$5\r\nhello\r\n',
      ':5\r\n',
      '*0\r\n',
      '*2\r\n$0\r\n\r\n$4\r\n6379\r\n',
      '*2\r\n$1\r\na\r\n$5\r\n99999\r\n',
    ];
    const master = await freePort();
    const { port } = await startSentinel(master);
    for (const reply of replies) {
      const sockets = new Set<Socket>();
      const server = createServer((socket) => sockets.add(socket.on('data', () => socket.write(reply))));
      await once(server.listen(0, '127.0.0.1'), 'listening');
      atEnd(() => {
        for (const socket of sockets) socket.destroy();
        server.close();
      });
      const liar = (server.address() as AddressInfo).port;
      await assert.rejects(nowhere([liar]).find(undefined), /^RedisError: a sentinel names no server: /, reply);
      const found = await eventually('the sentinel answers', () =>
        nowhere([liar, port])
          .find(undefined)
          .catch(() => false as const),
      );
      assert.equal(found, `redis://user:secret@127.0.0.1:${master}/2`);
      await eventually('its connections are closed', () => [...sockets].every(({ destroyed }) => destroyed));
    }
  });

  it('sends the password only to a sentinel that requires one', async () => {
    const master = await freePort();
    const { port } = await startSentinel(master, { password: 'secret' });
    const lookup = sentinelLookup(addressOf(`redis+sentinel://:secret@${hostsOf([port])}/the-master?db=2`), SYSTEM);
    assert.equal(
      await eventually('the sentinel answers', () => lookup.find(undefined).catch(() => false as const)),
      `redis://:secret@127.0.0.1:${master}/2`,
    );
  });
});

describe('the durability of a server', () => {
  const askedOf = <T>(redis: TestRedis, ask: (server: Server) => Promise<T>, user = ''): Promise<T> =>
    askOnce(SYSTEM, redis.uri.replace('//', `//${user}`), ask, 10_000);
  const infoOf = (redis: TestRedis, user = ''): Promise<ServerInfo> => askedOf(redis, serverInfo, user);

  it('reports every way in which the server loses accepted events', async (t) => {
    const redis = await TestRedis.start();
    assert.deepEqual(durabilityFaults(await infoOf(redis)), []);
    for (const policy of ['allkeys-lru', 'volatile-lru', 'volatile-ttl', 'allkeys-random']) {
      await redis.command('CONFIG', 'SET', 'maxmemory-policy', policy);
      const faults = durabilityFaults(await infoOf(redis));
      assert.equal(faults.length, 1);
      assert.match(String(faults[0]), new RegExp(`^maxmemory-policy is ${policy}: `));
    }
    await redis.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
    await redis.command('CONFIG', 'SET', 'appendonly', 'no');
    assert.deepEqual(durabilityFaults(await infoOf(redis)), [
      'the append-only file is off: accepted events are lost with the server; set appendonly yes',
    ]);
    await redis.command('CONFIG', 'SET', 'maxmemory-policy', 'volatile-ttl');
    const { log, lines } = logged(t, 'warn');
    await askedOf(redis, (server) => new DurabilityCheck('warn', 1, log).check(server));
    assert.deepEqual(
      lines.map(({ fault }) => String(fault).split(' ').slice(0, 3).join(' ')),
      ['maxmemory-policy is volatile-ttl:', 'the append-only file', '0 replicas are'],
    );
    await redis.command('ACL', 'SETUSER', 'blind', 'on', '>secret', '~*', '+@all', '-info');
    const [fault = '', ...others] = durabilityFaults(await infoOf(redis, 'blind:secret@'));
    assert.deepEqual([/the user lacks the right \+info/.test(fault), others], [true, []]);
    assert.deepEqual(replicationFaults(await infoOf(redis, 'blind:secret@'), 0), []);
    assert.equal(replicationFaults(await infoOf(redis, 'blind:secret@'), 1).length, 1);
  });

  it('refuses a server that rewrites its append-only file, unless it was seen without a rewrite before', async () => {
    const redis = await TestRedis.start();
    const durability = new DurabilityCheck('require', 0, QUIET_LOG);
    const inspected = (): Promise<void> => askedOf(redis, (server) => durability.check(server));
    const rewriting = async (): Promise<boolean> => aofRewrite(await infoOf(redis)) !== undefined;
    for (let at = 0; at < 10; at += 1) await redis.command('SET', `key-${at}`, 'x');
    const slow = ['CONFIG', 'SET', 'rdb-key-save-delay', '10000000'] as const;
    await redis.command(...slow);
    await redis.command('BGREWRITEAOF');
    assert.equal(await rewriting(), true);
    await assert.rejects(inspected(), { name: 'Error', message: /the append-only file is being rewritten/ });
    assert.equal(durability.awaitsRewrite, true);

    await redis.command('CONFIG', 'SET', 'appendonly', 'no');
    await redis.command('CONFIG', 'SET', 'rdb-key-save-delay', '0');
    await redis.command('CONFIG', 'SET', 'appendonly', 'yes');
    await eventually('the file is whole', async () => !(await rewriting()));
    await inspected();
    await redis.command(...slow);
    await redis.command('BGREWRITEAOF');
    assert.equal(await rewriting(), true);
    await inspected();
    await redis.command('CONFIG', 'SET', 'appendonly', 'no');
  });

  it('refuses a promoted replica whose first append-only file is not complete', async () => {
    const [master, replica] = await Promise.all([
      TestRedis.start(['--repl-diskless-sync-delay', '0']),
      TestRedis.start(['--appendonly', 'yes']),
    ]);
    for (let at = 0; at < 10; at += 1) await master.command('SET', `key-${at}`, 'x');
    await replica.command('CONFIG', 'SET', 'rdb-key-save-delay', '10000000');
    await replica.command('REPLICAOF', '127.0.0.1', String(master.port));
    await eventually('it begins its first file', async () => aofRewrite(await infoOf(replica)) !== undefined);
    await eventually('it has what the master has', async () => (await replica.command('DBSIZE')) === 10);
    await replica.command('REPLICAOF', 'NO', 'ONE');
    const durability = new DurabilityCheck('require', 0, QUIET_LOG);
    await assert.rejects(
      askedOf(replica, (server) => durability.check(server)),
      { name: 'QueueRefusal', message: /promoted before its first append-only file was written/ },
    );
    await replica.command('CONFIG', 'SET', 'appendonly', 'no');
  });

  it('reports no fault while a server loads its data, because it is not a master yet', async () => {
    const loading = new RedisError('LOADING Redis is loading the dataset in memory');
    const server: Server = { send: () => Promise.reject(loading) };
    const durability = new DurabilityCheck('warn', 1, QUIET_LOG);
    await assert.rejects(durability.check(server), loading);
    await assert.rejects(assertMaster(server), loading);
    assert.equal(isNotMaster(loading), true);
    // A proxy may not know HELLO, or report no role.
    await assertMaster({ send: () => Promise.reject(new RedisError('ERR unknown command')) });
    await assertMaster({ send: () => Promise.resolve(['server', 'proxy']) });
  });

  it('reports a number of replicas that differs from the setting, or from that of another gateway', async (t) => {
    const [master, replica] = await Promise.all([
      TestRedis.start(['--repl-diskless-sync-delay', '0']),
      TestRedis.start(),
    ]);
    const faults = async (replicas: number): Promise<readonly string[]> =>
      replicationFaults(await infoOf(master), replicas);
    assert.deepEqual(await faults(0), []);
    assert.match((await faults(1)).join(), /^0 replicas are connected and INGEST_QUEUE_REPLICAS is 1/);
    await replica.command('REPLICAOF', '127.0.0.1', String(master.port));
    await eventually('it is in step', async () =>
      /state=online/.test(String(await master.command('INFO', 'replication'))),
    );
    assert.match((await faults(0)).join(), /^the server has replicas \(1\) and INGEST_QUEUE_REPLICAS is 0/);
    assert.deepEqual(await faults(1), []);
    assert.match((await faults(2)).join(), /^1 replicas are connected and INGEST_QUEUE_REPLICAS is 2/);
    await assert.rejects(askedOf(replica, assertMaster), /^RedisError: READONLY the server is a (?:replica|slave)/);
    await askedOf(master, assertMaster);

    const { log, lines } = logged(t, 'warn');
    const opened = async (replicas: number, enqueueTimeoutMs?: number) => {
      const options = { replicas, writing: 2, log, enqueueTimeoutMs };
      const { queue, connections } = openReplicated({ after: atEnd }, master.uri, options);
      await eventually('it is connected', () => connections.every(({ ready }) => ready));
      return { queue, connections };
    };
    const outcomeOf = async (replicas: number, id: string, enqueueTimeoutMs?: number): Promise<string> =>
      (await submitAll((await opened(replicas, enqueueTimeoutMs)).queue, [new Recorded(id)])).join();
    assert.equal(await outcomeOf(1, 'one'), 'accepted');
    const { queue, connections } = await opened(1);
    connections[1]?.close();
    for (const id of ['a', 'b', 'c', 'd'])
      assert.deepEqual(await submitAll(queue, [new Recorded(id)]), ['accepted'], 'on the connection that is ready');
    const differing = (): string[] =>
      lines.splice(0).flatMap(({ msg }) => (msg.includes('another gateway') ? [msg] : []));
    assert.deepEqual(differing(), []);
    assert.equal(await outcomeOf(2, 'two', 1_000), 'unavailable', 'one replica counts once');
    assert.match(differing().join(), /^another gateway uses or used INGEST_QUEUE_REPLICAS=1: each answers by its own/);
    assert.equal(await outcomeOf(2, 'one', 1_000), 'unavailable', 'nor is a known event promised for two');
    assert.equal(await outcomeOf(1, 'two'), 'duplicate');
    await replica.signal('SIGSTOP');
    assert.equal(await outcomeOf(1, 'one', 1_000), 'unavailable', 'a replica that is frozen has nothing new');
  });
});
