import assert from 'node:assert/strict';
import { before, describe, it, type TestContext } from 'node:test';
import { QueueFailed } from '../../lib/ingest/queue-admin.ts';
import { queueAddress } from '../../lib/process/queue-uri.ts';
import type { StreamQueue } from '../../lib/redis/accept/stream-queue.ts';
import { StreamReader } from '../../lib/redis/read/stream-reader.ts';
import { ClusterMap, type ClusterAddress } from '../../lib/redis/server/cluster-map.ts';
import { type ConnectionListener, type ConnectionOptions, RedisConnection } from '../../lib/redis/server/connection.ts';
import { GROUP, STREAM } from '../../lib/redis/stream/layout.ts';
import { queueIsAway, QueueRefusal, RedisError } from '../../lib/redis/wire/errors.ts';
import type { Server } from '../../lib/redis/wire/values.ts';
import { Recorded, submitAll } from '../contract/queue.ts';
import { logged, openAdmin, openQueue, openReader, partitionAt, QUIET_LOG } from '../support/partition.ts';
import { freePort, TestRedis } from '../support/redis.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';
import { eventually } from '../support/scope.ts';

describe('a connection', () => {
  function opened(t: TestContext, uri: ConnectionOptions['uri'], log = QUIET_LOG, listener: ConnectionListener = {}) {
    const connection = new RedisConnection({ ...SYSTEM, uri, name: 'test', log });
    t.after(() => connection.close());
    connection.tell(listener);
    connection.open();
    return connection;
  }

  for (const [user, password, code] of [
    ['shop:hunter2@', undefined, 'WRONGPASS'],
    ['', 'required', 'NOAUTH'],
  ] as const)
    it(`logs a refused password with the server's address, without the password: ${code}`, async (t) => {
      const server = `127.0.0.1:${(await TestRedis.start([], { password })).port}`;
      const { log, lines } = logged(t, 'warn');
      const connection = opened(t, `redis://${user}${server}`, log);
      await eventually('it was refused', () => lines.length > 0);
      const msg = 'the queue refused the password; trying again';
      assert.deepEqual(lines, [{ server, reason: connection.lastError, msg }]);
      const [reason] = queueIsAway(connection.lastError).split(' (');
      assert.deepEqual([reason, connection.lastError.split(' ')[0]], ['the queue refused the password', code]);
      assert.equal(queueIsAway('ECONNREFUSED'), 'the queue does not answer (ECONNREFUSED)');
    });

  it('does not use a connection before its inspection has passed, and reports why it failed', async (t) => {
    const redis = await TestRedis.start();
    let passes = false;
    const refusals: QueueRefusal[] = [];
    const inspect = async (server: Server): Promise<void> => {
      assert.equal(await server.send(['PING']), 'PONG');
      await assert.rejects(connection.send(['PING']), /^Error: not connected to the queue/);
      if (!passes) throw new QueueRefusal('not yet');
    };
    const connection = opened(t, redis.uri, QUIET_LOG, { inspect, onRefused: (refusal) => refusals.push(refusal) });
    await eventually('it was refused', () => refusals.length > 0);
    assert.deepEqual([connection.ready, connection.waiting, connection.lastError], [false, false, 'not yet']);
    passes = true;
    await eventually('it is ready', () => connection.ready);
  });
});

describe('the states of a connection', () => {
  let redis: TestRedis;
  before(async () => {
    redis = await TestRedis.start(['--appendonly', 'no']);
  });
  function held(t: TestContext, uri: ConnectionOptions['uri'], listener: ConnectionListener = {}, log = QUIET_LOG) {
    const clock = new VirtualClock();
    const lost: string[] = [];
    let readied = 0;
    const connection = new RedisConnection({ clock, uri, name: 'test', log });
    t.after(() => connection.close());
    connection.tell({ ...listener, onReady: () => (readied += 1), onLost: (reason) => lost.push(reason) });
    const ready = (): Promise<unknown> => eventually('it is ready', () => connection.ready);
    return { connection, clock, lost, ready, readied: () => readied };
  }

  it('has one watch of its master, however often it was replaced, and none when it is closed', async (t) => {
    let asked = 0;
    const find = (): Promise<string> => {
      asked += 1;
      return Promise.resolve(redis.uri);
    };
    const { connection, clock, ready } = held(t, { find, watchMs: 100 });
    connection.open();
    for (let n = 0; n < 4; n += 1) {
      await ready();
      connection.restart('again');
      await clock.advance(1_000);
    }
    await ready();
    asked = 0;
    await clock.advance(1_000);
    assert.equal(asked, 10);
    connection.close();
    await clock.advance(1_000);
    assert.equal(asked, 10);
  });

  it('waits a second between attempts to connect', async (t) => {
    const { connection, clock, lost, ready, readied } = held(t, redis.uri);
    await assert.rejects(connection.send(['PING']), /\(not connected yet\)$/);
    connection.restart('nothing to throw away');
    connection.open();
    connection.open();
    await ready();
    await clock.advance(400);
    connection.restart('one');
    connection.restart('two');
    assert.deepEqual([connection.ready, connection.lastError, lost], [false, 'one', ['one']]);
    await assert.rejects(connection.send(['PING']), /\(one\)$/);
    await clock.advance(599);
    assert.equal(clock.pending, 1, 'the next attempt alone');
    await clock.advance(1);
    await ready();
    assert.equal(readied(), 2);
    await clock.advance(5_000);
    connection.restart('three', true);
    assert.equal(connection.waiting, true);
    await clock.advance(0);
    await ready();
    assert.deepEqual([connection.waiting, lost], [false, ['one', 'three']]);
    const clients = String(await redis.command('CLIENT', 'LIST'));
    assert.equal(clients.match(/name=test /g)?.length, 1);
  });

  it('follows its master to another server, and names both in the log only then', async (t) => {
    const next = await TestRedis.start(['--appendonly', 'no']);
    const { log, lines } = logged(t, 'info');
    let master = redis;
    const { connection, clock, lost, ready } = held(t, { find: async () => master.uri, watchMs: 100 }, {}, log);
    connection.open();
    for (const servers of [[redis], [redis], [next, redis]]) {
      master = servers[0] ?? redis;
      if (servers.length === 1) connection.restart('again');
      await clock.advance(1_000);
      await ready();
      const [server, before] = servers.map(({ port }) => `127.0.0.1:${port}`);
      const moved = before === undefined ? {} : { before };
      assert.deepEqual(lines.splice(0).at(-1), { server, ...moved, msg: 'connected to the queue' });
    }
    assert.equal(lost.at(-1), 'another server is the master now');
    assert.equal(await connection.send(['PING']), 'PONG');
  });

  it('waits for a server that accepts no writes for now', async (t) => {
    for (const code of ['NOREPLICAS', 'MISCONF', 'OOM', 'BUSY', 'READONLY', 'LOADING']) {
      const inspect = (): Promise<never> => Promise.reject(new RedisError(`${code} for now`));
      const { connection, lost } = held(t, redis.uri, { inspect });
      connection.open();
      await eventually('it was refused', () => lost.length > 0);
      assert.deepEqual([connection.waiting, connection.lastError], [true, `${code} for now`]);
    }
  });

  it('gives up an inspection after two and a half seconds, and starts again', async (t) => {
    let inspections = 0;
    const inspect = (): Promise<void> => {
      inspections += 1;
      return inspections === 1 ? new Promise(() => undefined) : Promise.resolve();
    };
    const { connection, clock, lost, ready, readied } = held(t, redis.uri, { inspect });
    connection.open();
    await eventually('it is inspected', () => inspections === 1);
    await clock.advance(2_499);
    assert.deepEqual(lost, []);
    await clock.advance(1);
    assert.deepEqual(lost, ['the server does not answer']);
    await clock.advance(0);
    await ready();
    await clock.advance(10_000);
    assert.equal(readied(), 1);
  });

  it('stops when it is closed, also during a lookup or an inspection', async (t) => {
    const ends: (() => void)[] = [];
    const wait = (): Promise<void> => new Promise((resolve) => ends.push(resolve));
    const lookedUp = held(t, { find: () => wait().then(() => redis.uri) });
    const inspected = held(t, redis.uri, { inspect: wait });
    for (const [at, { connection, clock, readied, lost }] of [lookedUp, inspected].entries()) {
      connection.open();
      await eventually('it waits', () => ends.length === at + 1);
      for (const _ of [1, 2]) connection.close();
      ends[at]?.();
      connection.open();
      connection.restart('too late');
      await clock.advance(5_000);
      assert.deepEqual([connection.ready, readied(), lost, clock.pending], [false, 0, [], 0]);
      await assert.rejects(connection.send(['PING']), /^Error: not connected to the queue/);
    }
  });

  it("reports a refusal of the lookup, and passes the server's last refusal to the next one", async (t) => {
    const refused: string[] = [];
    const asked: (string | undefined)[] = [];
    const find = (cause: RedisError | undefined): Promise<string> => {
      asked.push(cause?.message);
      return asked.length === 1 ? Promise.reject(new QueueRefusal('not this one')) : Promise.resolve(redis.uri);
    };
    const { connection, clock, lost, ready } = held(t, { find }, { onRefused: ({ message }) => refused.push(message) });
    connection.open();
    await eventually('it is refused', () => refused.length === 1);
    assert.deepEqual([refused, lost], [['not this one'], ['not this one']]);
    await clock.advance(1_000);
    await ready();
    await redis.command('REPLICAOF', '127.0.0.1', '1');
    await assert.rejects(connection.send(['SET', 'a', 'b']), /READONLY/);
    await eventually('it is thrown away', () => !connection.ready);
    assert.equal(connection.waiting, true);
    await redis.command('REPLICAOF', 'NO', 'ONE');
    await clock.advance(1_000);
    await ready();
    assert.equal(asked.length, 3);
    assert.match(asked[2] ?? '', /^READONLY/);
    assert.equal(asked[1], undefined);
  });
});

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
    const connection = new RedisConnection({ ...SYSTEM, uri, name: 'test', log: QUIET_LOG });
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
    const reader = new StreamReader({ ...SYSTEM, name: 'reader', part: partitionAt(redis.uri), log: QUIET_LOG });
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
});
