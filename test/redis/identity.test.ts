// The queue's identity: made once, read ever after, and held against what this program knows.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { QueueRefusal, RedisError } from '../../lib/redis/wire/errors.ts';
import type { Server } from '../../lib/redis/wire/script.ts';
import { KnownIdentity, queueIdentity } from '../../lib/redis/stream/identity.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { RedisConnection } from '../../lib/redis/server/client.ts';
import { createLog } from '../../lib/process/log.ts';
import type { RedisValue } from '../../lib/redis/wire/reply.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const LOG = createLog('test', 'error');
LOG.level = 'silent';

let redis: TestRedis;
before(async () => {
  redis = await TestRedis.start();
});

async function connected(): Promise<Server> {
  const connection = new RedisConnection({ ...SYSTEM, uri: redis.uri, name: 'test', log: LOG });
  atEnd(() => connection.close());
  connection.open();
  await eventually('it is connected', () => connection.ready);
  return connection.values;
}

describe("a queue's identity", () => {
  it('is made once, whoever comes first, and is the same for all', async () => {
    const servers = await Promise.all(Array.from({ length: 5 }, connected));
    const identities = await Promise.all(servers.map((server) => queueIdentity(server, 'raced', SYSTEM)));
    assert.equal(new Set(identities.map(({ id }) => id)).size, 1);
    assert.match(identities[0]?.id ?? '', /^[0-9a-f-]{36}$/);
    assert.deepEqual(await redis.command('HGETALL', '{raced}:queue'), [
      'format',
      '4',
      'partitions',
      '1',
      'id',
      identities[0]?.id,
      'secret',
      identities[0]?.secret,
    ]);
    assert.match(identities[0]?.secret ?? '', /^[0-9a-f]{32}$/);
  });

  it('has the longest body that anybody has accepted, which only grows', async () => {
    const server = await connected();
    const asked = async (accepts?: number): Promise<number | undefined> =>
      (await queueIdentity(server, 'accepting', accepts === undefined ? SYSTEM : { ...SYSTEM, accepts })).bodyBytesMax;
    assert.equal(await asked(), undefined);
    assert.equal(await asked(1_000), 1_000);
    assert.equal(await asked(900), 1_000);
    assert.equal(await asked(20_000), 20_000);
    assert.equal(await asked(), 20_000);
    assert.equal((await queueIdentity(server, 'begun', { ...SYSTEM, accepts: 5 })).bodyBytesMax, 5);
  });

  it('is known also where a server that refuses writes cannot be told of longer bodies', async () => {
    const server = await connected();
    const { id } = await queueIdentity(server, 'unwritable', SYSTEM);
    await redis.command('CONFIG', 'SET', 'min-replicas-to-write', '1');
    try {
      const known = await queueIdentity(server, 'unwritable', { ...SYSTEM, accepts: 5 });
      assert.deepEqual([known.id, known.bodyBytesMax], [id, undefined]);
      await assert.rejects(queueIdentity(server, 'unmade', SYSTEM), /NOREPLICAS/);
    } finally {
      await redis.command('CONFIG', 'SET', 'min-replicas-to-write', '0');
    }
    assert.equal((await queueIdentity(server, 'unwritable', { ...SYSTEM, accepts: 5 })).bodyBytesMax, 5);
  });

  it('is made again with the same secret where it was deleted by hand', async () => {
    const server = await connected();
    const known = await queueIdentity(server, 'deleted', SYSTEM);
    await redis.command('DEL', '{deleted}:queue');
    const { id, secret } = await queueIdentity(server, 'deleted', { ...SYSTEM, known });
    assert.equal(secret, known.secret);
    assert.notEqual(id, known.id);
  });

  it('differs from queue to queue', async () => {
    const server = await connected();
    const [one, other] = [await queueIdentity(server, 'one', SYSTEM), await queueIdentity(server, 'other', SYSTEM)];
    assert.notEqual(one.id, other.id);
    assert.notEqual(one.secret, other.secret);
  });

  it('is made and read also where the server is full', async () => {
    const server = await connected();
    await redis.command('CONFIG', 'SET', 'maxmemory', '1');
    try {
      const { id } = await queueIdentity(server, 'full', SYSTEM);
      assert.equal((await queueIdentity(server, 'full', SYSTEM)).id, id);
    } finally {
      await redis.command('CONFIG', 'SET', 'maxmemory', '0');
    }
  });

  it('of another format version, or with other partitions, is refused in words that name both', async () => {
    const server = await connected();
    await redis.command('HSET', '{newer}:queue', 'format', '3', 'partitions', '1', 'id', 'x', 'secret', 's');
    await assert.rejects(queueIdentity(server, 'newer', SYSTEM), (cause) => {
      assert.ok(cause instanceof QueueRefusal);
      assert.match(cause.message, /format 3.*format 4/);
      return true;
    });
    await redis.command('HSET', '{wide}:queue', 'format', '4', 'partitions', '8', 'id', 'x', 'secret', 's');
    await assert.rejects(queueIdentity(server, 'wide', SYSTEM), /8 partitions.* 1 partition/);
  });
});

describe('an identity, of a server that a test answers for', () => {
  const STORED = ['4', '1', 'id', null, 'secret'] as const;
  /** What is stored, what it becomes once the script was run, and what HELLO says. */
  function serverOf(stored: RedisValue | Error, told: RedisValue | Error = [], mode = 'standalone') {
    const sent: string[] = [];
    const send = async (command: readonly (string | Buffer)[]): Promise<RedisValue> => {
      const [name = ''] = command.map(String);
      sent.push(command.map(String).join(' '));
      if (name === 'HELLO') return ['mode', mode];
      const answer = name === 'HMGET' ? stored : told;
      if (answer instanceof Error) throw answer;
      return answer;
    };
    return { send, sent, told: () => sent.filter((command) => command.startsWith('EVALSHA')) };
  }

  it('that is there is told of longer bodies alone, and is known where that fails', async () => {
    const server = serverOf(['4', '1', 'id', '700', 'secret'], ['4', '1', 'id', '900', 'secret']);
    const found = { id: 'id', secret: 'secret', partitions: 1 };
    assert.deepEqual(await queueIdentity(server, 's', SYSTEM), { ...found, bodyBytesMax: 700 });
    assert.deepEqual(await queueIdentity(server, 's', { ...SYSTEM, accepts: 700 }), { ...found, bodyBytesMax: 700 });
    assert.deepEqual(server.told(), []);
    assert.deepEqual(await queueIdentity(server, 's', { ...SYSTEM, accepts: 900 }), { ...found, bodyBytesMax: 900 });
    assert.match(server.told()[0] ?? '', / 1 s 4 1 [0-9a-f-]{36} 900 [0-9a-f]{32}$/);
    const failing = serverOf(['4', '1', 'id', '700', 'secret'], new RedisError('OOM'));
    assert.equal((await queueIdentity(failing, 's', { ...SYSTEM, accepts: 900 })).bodyBytesMax, 700);
  });

  it('that is not there is made with the secret of before, or fails with what the server says', async () => {
    const nothing = [null, null, null, null, null];
    const server = serverOf(nothing, STORED);
    const known = { id: 'old', secret: 'kept', partitions: 1, bodyBytesMax: undefined };
    assert.equal((await queueIdentity(server, 's', { ...SYSTEM, known })).id, 'id');
    assert.match(server.told()[0] ?? '', / 0 kept$/);
    await assert.rejects(queueIdentity(serverOf(nothing, new RedisError('OOM full')), 's', SYSTEM), /OOM full/);
  });

  it('that is not to be made has no id, or is read as it is', async () => {
    const nothing = serverOf([null, null, null, null, null]);
    assert.deepEqual(await queueIdentity(nothing, 's', { ...SYSTEM, makes: false, partitions: 4 }), {
      ...{ id: '', secret: '', partitions: 4, bodyBytesMax: undefined },
    });
    const there = serverOf(STORED);
    assert.equal((await queueIdentity(there, 's', { ...SYSTEM, makes: false, accepts: 9 })).id, 'id');
    assert.deepEqual([...nothing.told(), ...there.told()], []);
  });

  it('of another format, without a secret, or of another number of partitions is refused', async () => {
    for (const [stored, message] of [
      [['2', '1', 'id', null, 'secret'], /^the queue s has format 2, and this program needs format 4: let programs/],
      [['4', '1', 'id', null, null], /^the queue s has format 4, and/],
    ] as const)
      await assert.rejects(queueIdentity(serverOf(stored), 's', SYSTEM), { name: 'QueueRefusal', message });
    await assert.rejects(queueIdentity(serverOf(['4', '8', 'id', null, 'secret']), 's', SYSTEM), {
      name: 'SettingRefused',
      message: /^the queue s has 8 partitions, and this program is set to 1 partition: the number is fixed/,
    });
  });

  it('on the node of a cluster is refused behind a plain URI alone', async () => {
    await assert.rejects(queueIdentity(serverOf(STORED, [], 'cluster'), 's', SYSTEM), {
      name: 'QueueRefusal',
      message: 'this is a Redis Cluster: use redis+cluster://',
    });
    for (const code of ['MOVED 1 h:1', 'ASK 1 h:1', 'CLUSTERDOWN']) {
      const server = serverOf(new RedisError(code), [], 'cluster');
      await assert.rejects(queueIdentity(server, 's', { ...SYSTEM, plain: false }), { name: 'RedisError' });
      assert.ok(!server.sent.includes('HELLO'));
      await assert.rejects(queueIdentity(serverOf(new RedisError(code)), 's', SYSTEM), {
        name: 'QueueRefusal',
        message: `this is a Redis Cluster: use redis+cluster:// (${code})`,
      });
    }
    await assert.rejects(queueIdentity(serverOf(new RedisError('OOM')), 's', SYSTEM), { name: 'RedisError' });
    await assert.rejects(queueIdentity(serverOf(new Error('cut')), 's', SYSTEM), /^Error: cut$/);
  });

  it('is asked again every ten seconds by a reader, whatever failed before, until it stops', async () => {
    const clock = new VirtualClock();
    let asked = 0;
    let fails = false;
    const known: unknown[] = [];
    const identity = new KnownIdentity('s', clock, async (_, before) => {
      asked += 1;
      known.push(before?.id);
      if (fails) throw new Error('cut');
      return { id: `id-${asked}`, secret: '', partitions: 1, bodyBytesMax: asked };
    });
    assert.equal(identity.source, '/s');
    assert.equal(identity.bodyBytesMax, undefined);
    const server = serverOf([]);
    await identity.ask(server);
    assert.equal(identity.source, 'id-1/s');
    identity.keepAsking(server);
    identity.keepAsking(server);
    await clock.advance(9_999);
    assert.equal(asked, 1);
    fails = true;
    await clock.advance(1);
    assert.equal(asked, 2);
    assert.equal(identity.source, 'id-1/s');
    fails = false;
    await clock.advance(10_000);
    assert.equal(identity.bodyBytesMax, 3);
    assert.deepEqual(known, [undefined, 'id-1', 'id-1']);
    identity.stop();
    await clock.advance(60_000);
    assert.equal(asked, 3);
  });
});
