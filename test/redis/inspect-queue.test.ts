import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { EXIT, StartFailure } from '../../lib/process/program.ts';
import type { Server } from '../../lib/redis/wire/values.ts';
import { inspectQueue } from '../../lib/redis/stream/inspect-queue.ts';
import { queueIdentity } from '../../lib/redis/stream/queue-metadata.ts';
import { queuePartitions } from '../../lib/redis/stream/queue-partitions.ts';
import { assertRights } from '../../lib/redis/stream/rights.ts';
import { rule } from '../support/redis-rights.ts';
import { connectedTo as connected } from '../support/partition.ts';
import { freePort, TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const redis = await TestRedis.start(['--appendonly', 'no']);
beforeEach(async () => {
  await redis.command('FLUSHALL');
});

const uriOf = (user: string): string => `redis://${user}:secret@127.0.0.1:${redis.port}`;

describe('the rights of a Redis user', () => {
  for (const program of ['gateway', 'consumer', 'admin'] as const)
    it(`accepts the rights that deploy/install.md gives a ${program}, and names each missing one`, async () => {
      const name = `ingest-${program}`;
      await redis.command('ACL', 'SETUSER', name, 'reset', ...rule(name));
      await assertRights(await connected(uriOf(name)), 'ingest', program);
      // The loop skips commands that set up a connection, and INFO, whose absence is only a durability fault.
      const rights = rule(name).filter((word) => word.startsWith('+') && !/^\+(client|select|info)/.test(word));
      assert.ok(rights.length > 15);
      for (const right of rights) {
        const user = `lacks-${right.slice(1).replace('|', '-')}`;
        await redis.command('ACL', 'SETUSER', user, 'reset', ...rule(name).filter((word) => word !== right));
        const server = await connected(uriOf(user));
        const command = right.slice(1).replace('|', ' ');
        await assert.rejects(
          assertRights(server, 'ingest', program),
          (cause: Error) => cause.name === 'QueueRefusal' && cause.message.includes(command),
          right,
        );
      }
    });

  it('names commands that the server has under another name', async () => {
    const renamed = await TestRedis.start(['--rename-command', 'XADD', '', '--rename-command', 'XACK', 'other']);
    await assert.rejects(
      assertRights(await connected(renamed.uri), 'ingest', 'gateway'),
      /: xack \(unknown to the server\), xadd \(unknown to the server\) \(deploy/,
    );
  });

  it('names the keys that have another type', async () => {
    const server = await connected(redis.uri);
    for (const key of ['{ingest}:ids', '{ingest}:queue']) await redis.command('LPUSH', key, 'x');
    for (const key of ['ingest', '{ingest}:erased', '{ingest}:looked', '{ingest}:replays', '{ingest}:replicas'])
      await redis.command('SET', key, 'x');
    for (const program of ['gateway', 'consumer', 'admin'] as const)
      await assert.rejects(assertRights(server, 'ingest', program), {
        name: 'QueueRefusal',
        message:
          'other programs write to keys of the queue, which have the wrong type: ingest, {ingest}:erased, {ingest}:ids, ' +
          '{ingest}:looked, {ingest}:queue, {ingest}:replays, {ingest}:replicas (rename them)',
      });
  });

  it('names the key of a missing right, and runs no command to find out', async () => {
    await redis.command('ACL', 'SETUSER', 'elsewhere', 'reset', 'on', '>secret', '~ingest', '+@all');
    const server = await connected(uriOf('elsewhere'));
    await redis.command('ACL', 'LOG', 'RESET');
    await assert.rejects(assertRights(server, 'ingest', 'consumer'), (cause: Error) => {
      for (const key of ['{ingest}:ids', '{ingest}:ids:1', '{ingest}:queue', '{ingest}:looked', '{ingest}:replicas'])
        assert.ok(cause.message.includes(` on ${key},`) || cause.message.includes(` on ${key} (`), key);
      assert.match(cause.message, /^the Redis user lacks rights that this program needs: .* \(deploy\/install\.md/);
      assert.doesNotMatch(cause.message, /xadd|xrange|xack/);
      return true;
    });
    assert.deepEqual(await redis.command('ACL', 'LOG'), []);
    assert.deepEqual(await redis.command('KEYS', '*'), []);
    await assert.rejects(assertRights(server, 'ingest', 'gateway', ['config get x']), /hset on \{ingest\}:ids:1/);
  });
});

describe('the check of a queue', () => {
  const look = (more: Partial<Parameters<typeof inspectQueue>[0]> = {}): Promise<string> =>
    inspectQueue({ uri: redis.uri, partitions: 3, program: 'gateway', ...more }, SYSTEM);
  const failed = async (look: Promise<string>): Promise<StartFailure> => {
    const cause: unknown = await look.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    assert.ok(cause instanceof StartFailure, String(cause));
    return cause;
  };

  it('reports the server and the number of events, and creates nothing', async () => {
    assert.match(await look(), /^queue redis:\/\/127\.0\.0\.1:\d+: Redis [78]\S+, 0 events in the stream$/);
    assert.deepEqual(await redis.command('KEYS', '*'), []);
    for (const entry of ['1-1', '1-2']) await redis.command('XADD', 'ingest', entry, 'body', '{}');
    assert.match(await look({ program: 'consumer' }), /, 2 events in the stream$/);
    for (const entry of ['1-1', '1-2', '1-3'])
      await redis.command('XADD', entry === '1-1' ? 'ingest-a' : 'ingest-b', entry, 'body', '{}');
    const uri = `dispatcher://127.0.0.1:${redis.port},127.0.0.1:${redis.port}`;
    assert.match(await look({ uri }), /, 3 events in 2 streams$/);
  });

  it('fails with 4 for another format or missing rights, and with 2 for another number of partitions', async () => {
    await redis.command('HSET', '{ingest}:queue', 'format', '7', 'partitions', '1', 'id', 'x', 'secret', 's');
    const format = await failed(look());
    assert.equal(format.exitCode, EXIT.queue);
    assert.match(
      format.message,
      /^INGEST_QUEUE_URI=redis:.*: the queue ingest has format 7, .* format 4: let programs of the version that made it land/,
    );
    await redis.command('HSET', '{ingest}:queue', 'format', '4', 'partitions', '2');
    const partitions = await failed(look());
    assert.equal(partitions.exitCode, EXIT.configuration);
    assert.match(
      partitions.message,
      /the queue ingest has 2 partitions, and this program is set to 1 partition: the number is fixed/,
    );
    await redis.command('ACL', 'SETUSER', 'poor', 'reset', 'on', '>secret', '~*', '+@all', '-hset');
    const rights = await failed(look({ uri: uriOf('poor') }));
    assert.equal(rights.exitCode, EXIT.queue);
    assert.match(rights.message, /lacks rights that this program needs: hset on/);
    assert.doesNotMatch(rights.message, /secret/);
  });

  it('fails with 4 and a remedy if no server is reachable within five seconds', async () => {
    const clock = new VirtualClock();
    const uri = `redis://127.0.0.1:${await freePort()}`;
    let message = '';
    void failed(inspectQueue({ uri, partitions: 1, program: 'gateway' }, { ...SYSTEM, clock })).then(
      (failure) => (message = failure.message),
    );
    await clock.advance(4_999);
    assert.equal(message, '');
    await eventually('it has failed', async () => {
      await clock.advance(1_000);
      return message !== '';
    });
    assert.match(message, /the queue does not answer \(.*\); check that the server runs, is reachable/);
  });
});

it('the partitions of a cluster have a stream each and one identity, also while its node is unavailable', async () => {
  const node = await TestRedis.start([
    ...['--cluster-enabled', 'yes', '--appendonly', 'no', '--cluster-port', String(await freePort())],
  ]);
  await node.command('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
  await eventually('the cluster is up', async () => /state:ok/.test(String(await node.command('CLUSTER', 'INFO'))));
  const uri = `redis+cluster://127.0.0.1:${node.port}`;
  const server: Server = { send: () => assert.fail('the metadata may be on another node') };
  const [first, second, third] = queuePartitions(uri, 3, SYSTEM);
  assert.ok(first && second && third);
  assert.deepEqual(
    [first, second, third].map(({ stream }) => stream),
    ['ingest-0', 'ingest-1', 'ingest-2'],
  );
  const identity = await first.identify(server);
  assert.equal(identity.partitions, 3);
  assert.equal(await node.command('HGET', '{ingest}:queue', 'partitions'), '3');
  assert.deepEqual(await node.command('KEYS', '*:queue'), ['{ingest}:queue']);
  await node.command('HSET', '{ingest}:queue', 'id', 'another');
  assert.equal((await second.identify(server)).id, 'another');
  await node.command('HSET', '{ingest}:queue', 'partitions', '4');
  await assert.rejects(first.identify(server), { name: 'SettingRefused' });
  await node.signal('SIGKILL');
  assert.equal((await third.identify(server)).id, 'another');
  const [fresh] = queuePartitions(uri, 3, SYSTEM);
  assert.ok(fresh);
  await assert.rejects(fresh.identify(server), /^Error: the queue's metadata cannot be read \(.*ECONNREFUSED/);
});

describe("a queue's identity", () => {
  it('is created once and is the same for every program', async () => {
    const servers = await Promise.all(Array.from({ length: 5 }, () => connected(redis.uri)));
    const identities = await Promise.all(servers.map((server) => queueIdentity(server, 'raced', SYSTEM)));
    assert.equal(new Set(identities.map(({ id }) => id)).size, 1);
    assert.match(identities[0]?.id ?? '', /^[0-9a-f-]{36}$/);
    const { id, secret = '' } = identities[0] ?? {};
    const stored = ['format', '4', 'partitions', '1', 'id', id, 'secret', secret];
    assert.deepEqual(await redis.command('HGETALL', '{raced}:queue'), stored);
    assert.match(secret, /^[0-9a-f]{32}$/);
  });

  it('keeps the longest accepted body, which only grows', async () => {
    const server = await connected(redis.uri);
    const asked = async (accepts?: number): Promise<number | undefined> =>
      (await queueIdentity(server, 'accepting', accepts === undefined ? SYSTEM : { ...SYSTEM, accepts })).bodyBytesMax;
    assert.equal(await asked(), undefined);
    assert.equal(await asked(1_000), 1_000);
    assert.equal(await asked(900), 1_000);
    assert.equal(await asked(20_000), 20_000);
    assert.equal(await asked(), 20_000);
    assert.equal((await queueIdentity(server, 'begun', { ...SYSTEM, accepts: 5 })).bodyBytesMax, 5);
  });

  it('is usable if a server that refuses writes cannot store a longer body', async () => {
    const server = await connected(redis.uri);
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

  it('is recreated with the same secret after it was deleted by hand', async () => {
    const server = await connected(redis.uri);
    const host = `127.0.0.1:${redis.port}`;
    const parts = [redis.uri, `dispatcher://${host},${host}`].flatMap((uri) => queuePartitions(uri, 1, SYSTEM));
    assert.equal(parts.length, 3);
    for (const { stream, identify } of parts) {
      const known = await identify(server);
      await redis.command('DEL', `{${stream}}:queue`);
      const { id, secret } = await identify(server, known);
      assert.deepEqual([secret, id === known.id], [known.secret, false], stream);
    }
  });

  it('is created and read on a full server', async () => {
    const server = await connected(redis.uri);
    await redis.command('CONFIG', 'SET', 'maxmemory', '1');
    try {
      const { id } = await queueIdentity(server, 'full', SYSTEM);
      assert.equal((await queueIdentity(server, 'full', SYSTEM)).id, id);
    } finally {
      await redis.command('CONFIG', 'SET', 'maxmemory', '0');
    }
  });

  it('is empty if the queue is only inspected and has none, and is not created', async () => {
    const server = await connected(redis.uri);
    assert.deepEqual(await queueIdentity(server, 'none', { ...SYSTEM, makes: false }), {
      ...{ id: '', secret: '', partitions: 1, bodyBytesMax: undefined },
    });
    assert.deepEqual(await redis.command('KEYS', '*'), []);
  });

  it('is refused without a secret, and on a node of a cluster behind a plain URI', async () => {
    const server = await connected(redis.uri);
    await redis.command('HSET', '{half}:queue', 'format', '4', 'partitions', '1', 'id', 'x');
    await assert.rejects(queueIdentity(server, 'half', SYSTEM), { name: 'QueueRefusal' });
    const node: Server = { send: async () => ['mode', 'cluster'] };
    await assert.rejects(queueIdentity(node, 'ingest', SYSTEM), /this is a Redis Cluster: use redis\+cluster:\/\//);
  });
});
