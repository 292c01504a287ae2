// What a supervised connection does when its server is not what it was.
import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { describe, it, type TestContext } from 'node:test';
import { createLog } from '../../lib/process/log.ts';
import {
  type Client,
  type ConnectionListener,
  type ConnectionOptions,
  RedisConnection,
} from '../../lib/redis/server/client.ts';
import { NoConnection, queueIsAway, QueueRefusal, RedisError } from '../../lib/redis/wire/errors.ts';
import { Reply } from '../../lib/redis/wire/reply.ts';
import type { Argument, Server } from '../../lib/redis/wire/script.ts';
import { openLink, type Link } from '../support/link.ts';
import { TestRedis } from '../support/redis.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';
import { atEnd, eventually } from '../support/scope.ts';

const log = createLog('test', 'error');
log.level = 'silent';

async function linked(redis: TestRedis): Promise<Link> {
  const link = await openLink({ port: redis.port, host: '127.0.0.1' });
  atEnd(() => link.close());
  return link;
}

describe('a connection', () => {
  const opened = (t: TestContext, port: number): RedisConnection => {
    const connection = new RedisConnection({ ...SYSTEM, uri: `redis://127.0.0.1:${port}`, name: 'test', log });
    t.after(() => connection.close());
    connection.open();
    return connection;
  };

  it('is logged with the address of its server, and after a fail-over with that of the one before', async (t) => {
    const servers = await Promise.all([TestRedis.start(), TestRedis.start()]);
    const [one, other] = servers.map(({ port }) => `127.0.0.1:${port}`);
    let at = 0;
    const lines: object[] = [];
    const collecting = createLog('test', 'error').child({}, { level: 'silent' });
    t.mock.method(collecting, 'info', (fields: object, msg: string) => lines.push({ ...fields, msg }));
    const uri = { find: () => Promise.resolve(servers[at]?.uri ?? '') };
    const connection = new RedisConnection({ ...SYSTEM, uri, name: 'test', log: collecting });
    t.after(() => connection.close());
    connection.open();
    await eventually('it is ready', () => connection.ready);
    at = 1;
    connection.restart('the master is another server now');
    await eventually('it is ready again', () => connection.ready);
    const msg = 'connected to the queue';
    assert.deepEqual(lines, [
      { server: one, msg },
      { server: other, before: one, msg },
    ]);
  });

  it('whose password the server refuses is logged as that, with the server and without the password', async (t) => {
    const redis = await TestRedis.start();
    const lines: object[] = [];
    const collecting = createLog('test', 'error').child({}, { level: 'silent' });
    t.mock.method(collecting, 'warn', (fields: object, msg: string) => lines.push({ ...fields, msg }));
    const server = `127.0.0.1:${redis.port}`;
    const connection = new RedisConnection({
      ...SYSTEM,
      uri: `redis://shop:hunter2@${server}`,
      name: 'test',
      log: collecting,
    });
    t.after(() => connection.close());
    connection.open();
    await eventually('it was refused', () => lines.length > 0);
    const msg = 'the queue refused the password; trying again';
    assert.deepEqual(lines, [{ server, reason: connection.lastError, msg }]);
    assert.match(queueIsAway(connection.lastError), /^the queue refused the password \(WRONGPASS /);
    assert.equal(queueIsAway('ECONNREFUSED'), 'the queue does not answer (ECONNREFUSED)');
  });

  it('is made anew after a reconnect to a server that takes it and says nothing', async (t) => {
    const link = await linked(await TestRedis.start());
    const connection = opened(t, link.port);
    await eventually('it is ready', () => connection.ready);
    const before = link.taken;
    link.silence();
    await eventually('it has reconnected', () => link.taken > before);
    // The connection that it holds now stays silent for good; another one would be answered.
    link.mend();
    await eventually('it is ready again', () => connection.ready, 15_000);
  });

  it('fails with the class and code of what happened', async (t) => {
    const redis = await TestRedis.start();
    const connection = opened(t, redis.port);
    await assert.rejects(connection.send(['PING']), NoConnection);
    await eventually('it is ready', () => connection.ready);
    await assert.rejects(connection.send(['NOPE']), (cause) => cause instanceof RedisError && cause.code === 'ERR');
    await assert.rejects(
      connection.send(['XREADGROUP', 'GROUP', 'g', 'c', 'STREAMS', 's', '>']),
      (cause) => cause instanceof RedisError && cause.code === 'NOGROUP',
    );
  });

  it('to a server that is no master is thrown away, and its name resolved anew, at most once a second', async (t) => {
    const [old, fresh] = [await TestRedis.start(), await TestRedis.start()];
    const link = await linked(old);
    const connection = opened(t, link.port);
    await eventually('it is ready', () => connection.ready);
    await old.command('REPLICAOF', '127.0.0.1', String(fresh.port));
    const [taken, startMs] = [link.taken, performance.now()];
    await assert.rejects(connection.send(['SET', 'a', 'b']), /READONLY/);
    await eventually('it was made anew, twice', () => link.taken >= taken + 2);
    assert.ok(performance.now() - startMs > 900, 'not faster than once a second');
    assert.equal(connection.ready, false);
    assert.match(connection.lastError, /^READONLY/);
    link.retarget({ port: fresh.port, host: '127.0.0.1' });
    await eventually('it is ready, with the other server', () => connection.ready);
    await connection.send(['SET', 'a', 'b']);
  });

  it('is not used before its inspection has passed, and says why where it has not', async (t) => {
    const redis = await TestRedis.start();
    const connection = new RedisConnection({ ...SYSTEM, uri: redis.uri, name: 'test', log });
    t.after(() => connection.close());
    let passes = false;
    const refusals: QueueRefusal[] = [];
    const inspect = async (server: Server): Promise<void> => {
      assert.equal(await server.send(['PING']), 'PONG');
      await assert.rejects(connection.send(['PING']), NoConnection);
      if (!passes) throw new QueueRefusal('not yet');
    };
    connection.tell({ inspect, onRefused: (refusal) => refusals.push(refusal) });
    connection.open();
    await eventually('it was refused', () => refusals.length > 0);
    assert.deepEqual([connection.ready, connection.lastError], [false, 'not yet']);
    passes = true;
    await eventually('it is ready', () => connection.ready);
  });
});

describe('the states of a connection', () => {
  /** A connection whose time a test moves, to a real server. */
  function held(t: TestContext, uri: ConnectionOptions['uri'], listener: ConnectionListener = {}) {
    const clock = new VirtualClock();
    const lost: string[] = [];
    let readied = 0;
    const connection = new RedisConnection({ clock, random: SYSTEM.random, uri, name: 'test', log });
    t.after(() => connection.close());
    connection.tell({ ...listener, onReady: () => (readied += 1), onLost: (reason) => lost.push(reason) });
    const ready = (): Promise<unknown> => eventually('it is ready', () => connection.ready);
    return { connection, clock, lost, ready, readied: () => readied };
  }

  it('are made anew a second after the last time, and no sooner', async (t) => {
    const redis = await TestRedis.start(['--appendonly', 'no']);
    const { connection, clock, lost, ready, readied } = held(t, redis.uri);
    await assert.rejects(connection.send(['PING']), { name: 'NoConnection', message: /\(not connected yet\)$/ });
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

  it('end with an inspection that takes two and a half seconds, and begin again', async (t) => {
    const redis = await TestRedis.start(['--appendonly', 'no']);
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

  it('end for good when it is closed, also while it looks up or inspects', async (t) => {
    const redis = await TestRedis.start(['--appendonly', 'no']);
    const ends: (() => void)[] = [];
    const wait = (): Promise<void> => new Promise((resolve) => ends.push(resolve));
    const lookedUp = held(t, { find: () => wait().then(() => redis.uri) });
    const inspected = held(t, redis.uri, { inspect: wait });
    for (const [at, { connection, clock, readied, lost }] of [lookedUp, inspected].entries()) {
      connection.open();
      await eventually('it waits', () => ends.length === at + 1);
      await Promise.all([connection.close(), connection.close()]);
      ends[at]?.();
      connection.open();
      connection.restart('too late');
      await clock.advance(5_000);
      assert.deepEqual([connection.ready, readied(), lost, clock.pending], [false, 0, [], 0]);
      await assert.rejects(connection.send(['PING']), NoConnection);
    }
  });

  it('tell a refusal of the look-up, and ask again with what the last server refused', async (t) => {
    const redis = await TestRedis.start(['--appendonly', 'no']);
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

/** A client whose answers and end a test gives. */
class FakeClient extends EventEmitter implements Client {
  isReady = false;
  bytesReceived = 7;
  readonly uri: string;
  readonly did: string[] = [];
  answers: (command: string) => Promise<Reply> = () => Promise.resolve(answer('*0\r\n'));
  closes: Promise<void> = Promise.resolve();

  constructor(uri: string) {
    super();
    this.uri = uri;
  }

  connect(): Promise<void> {
    this.did.push('connect');
    return Promise.resolve();
  }

  sendCommand(command: readonly Argument[]): Promise<Reply> {
    this.did.push(command.join(' '));
    return this.answers(command.join(' '));
  }

  close(): Promise<void> {
    this.did.push('close');
    return this.closes;
  }

  destroy(): void {
    this.did.push('destroy');
    this.isReady = false;
  }

  becomesReady(): void {
    this.isReady = true;
    this.emit('ready');
  }
}

const answer = (text: string): Reply => new Reply(Buffer.from(text));
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('a connection over clients that a test answers for', () => {
  function start(t: TestContext, change: Partial<ConnectionOptions> = {}, listener: ConnectionListener = {}) {
    const clock = new VirtualClock();
    const own = createLog('test', 'error').child({}, { level: 'silent' });
    const lines: unknown[] = [];
    for (const level of ['info', 'warn'] as const)
      t.mock.method(own, level, (fields: object, text: string) => lines.push({ ...fields, text }));
    const clients: FakeClient[] = [];
    const options = { clock, random: SYSTEM.random, uri: 'redis://h:1', name: 'test', log: own, ...change };
    const connection = new RedisConnection(options, (uri) => {
      const client = new FakeClient(uri);
      clients.push(client);
      return client;
    });
    const told: string[] = [];
    connection.tell({
      onReady: () => told.push('ready'),
      onLost: (reason) => told.push(`lost: ${reason}`),
      onRefused: ({ message }) => told.push(`refused: ${message}`),
      ...listener,
    });
    t.after(() => connection.close());
    const last = (): FakeClient => clients.at(-1) ?? assert.fail();
    const ready = async (): Promise<void> => {
      last().becomesReady();
      await settled();
    };
    return { clock, connection, clients, last, ready, told, lines };
  }

  it('says why it is not ready, once for each reason, and the other way where the password is refused', async (t) => {
    const { connection, last, told, lines, ready } = start(t);
    assert.equal(connection.bytesReceived, 0);
    connection.open();
    assert.equal(connection.bytesReceived, 7);
    for (const reason of ['one', 'one', 'WRONGPASS no']) last().emit('error', new Error(reason));
    assert.deepEqual(told, ['lost: one', 'lost: one', 'lost: WRONGPASS no']);
    assert.equal(connection.lastError, 'WRONGPASS no');
    const server = 'h:1';
    assert.deepEqual(lines.splice(0), [
      { server, reason: 'one', text: 'no connection to the queue; trying again until there is one' },
      { server, reason: 'WRONGPASS no', text: 'the queue refused the password; trying again' },
    ]);
    await ready();
    last().emit('error', new Error('WRONGPASS no'));
    assert.equal(lines.length, 2, 'what was ready is told of again');
    assert.equal(connection.ready, false);
  });

  it('is not ready while its client is not, and is inspected again when that is', async (t) => {
    const { connection, last, told, ready } = start(t);
    connection.open();
    await ready();
    assert.equal(connection.ready, true);
    last().isReady = false;
    assert.equal(connection.ready, false);
    await ready();
    assert.deepEqual(told, ['ready', 'ready']);
    assert.equal(last().did.filter((command) => command === 'HELLO').length, 2);
  });

  it('keeps its client over an error where the server has one address, and looks it up again else', async (t) => {
    const one = start(t);
    one.connection.open();
    one.last().emit('error', new Error('cut'));
    assert.equal(one.clients.length, 1);
    assert.deepEqual(one.last().did, ['connect']);
    const other = start(t, { uri: { find: () => Promise.resolve('redis://i:2') } });
    other.connection.open();
    await settled();
    other.last().emit('error', new Error('cut'));
    assert.equal(other.last().did.at(-1), 'destroy');
    await other.clock.advance(1_000);
    await settled();
    assert.equal(other.clients.length, 2);
    other.clients[0]?.emit('error', new Error('too late'));
    assert.deepEqual(other.told, ['lost: cut']);
  });

  it('throws a server away that is no master, refuses for now, or is not for this program, and says which', async (t) => {
    for (const [cause, waiting] of [
      [new RedisError('READONLY a replica'), true],
      [new RedisError('OOM full'), true],
      [new RedisError('ERR else'), false],
      [new QueueRefusal('another format'), false],
    ] as const) {
      const { connection, last, told, ready } = start(t, {}, { inspect: () => Promise.reject(cause) });
      connection.open();
      await ready();
      assert.equal(connection.waiting, waiting, cause.message);
      assert.equal(last().did.at(-1), 'destroy');
      const refused = cause instanceof QueueRefusal ? [`refused: ${cause.message}`] : [];
      assert.deepEqual(told, [`lost: ${cause.message}`, ...refused]);
    }
  });

  it('is thrown away by a refusal of a command, where that says that the key or the master is elsewhere', async (t) => {
    const asked: (string | undefined)[] = [];
    const find = (cause: RedisError | undefined): Promise<string> => {
      asked.push(cause?.message);
      return Promise.resolve('redis://h:1');
    };
    const { connection, clock, last, ready, clients } = start(t, { uri: { find } });
    connection.open();
    await settled();
    last().emit('refused', new RedisError('MOVED 1 i:2'));
    assert.equal(clients.length, 1, 'it is not ready yet');
    await ready();
    for (const message of ['OOM full', 'ERR else']) last().emit('refused', new RedisError(message));
    assert.equal(connection.ready, true);
    for (const message of ['MOVED 1 i:2', 'READONLY a replica']) {
      last().emit('refused', new RedisError(message));
      assert.equal(connection.ready, false);
      assert.equal(connection.waiting, true);
      await clock.advance(1_000);
      await settled();
      await ready();
    }
    clients[0]?.emit('refused', new RedisError('READONLY too late'));
    assert.equal(connection.ready, true);
    assert.deepEqual(asked, [undefined, 'MOVED 1 i:2', 'READONLY a replica']);
  });

  it('follows the server that its inspection was sent to', async (t) => {
    const asked: (string | undefined)[] = [];
    const find = (cause: RedisError | undefined): Promise<string> => {
      asked.push(cause?.message);
      return Promise.resolve('redis://h:1');
    };
    const inspect = (): Promise<void> => Promise.reject(new RedisError('MOVED 1 i:2'));
    const { connection, clock, ready } = start(t, { uri: { find } }, { inspect });
    connection.open();
    await settled();
    await ready();
    await clock.advance(1_000);
    await settled();
    assert.deepEqual(asked, [undefined, 'MOVED 1 i:2']);
  });

  it('waits half a second for its last answers when it is closed, and for none that is not connected', async (t) => {
    const { connection, clock, last, ready } = start(t);
    connection.open();
    await ready();
    last().closes = new Promise(() => undefined);
    void connection.close();
    await clock.advance(499);
    assert.equal(last().did.at(-1), 'close');
    await clock.advance(1);
    assert.equal(last().did.at(-1), 'destroy');
    const other = start(t);
    other.connection.open();
    await other.connection.close();
    assert.deepEqual(other.last().did, ['connect', 'destroy']);
  });
});
