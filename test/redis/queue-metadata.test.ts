import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Server } from '../../lib/redis/wire/values.ts';
import { queueIdentity } from '../../lib/redis/stream/queue-metadata.ts';
import { connectedTo } from '../support/partition.ts';
import { TestRedis } from '../support/redis.ts';
import { SYSTEM } from '../support/system.ts';

const redis = await TestRedis.start();

const connected = (): Promise<Server> => connectedTo(redis.uri);

describe("a queue's identity", () => {
  it('is created once and is the same for every program', async () => {
    const servers = await Promise.all(Array.from({ length: 5 }, connected));
    const identities = await Promise.all(servers.map((server) => queueIdentity(server, 'raced', SYSTEM)));
    assert.equal(new Set(identities.map(({ id }) => id)).size, 1);
    assert.match(identities[0]?.id ?? '', /^[0-9a-f-]{36}$/);
    const { id, secret = '' } = identities[0] ?? {};
    const stored = ['format', '4', 'partitions', '1', 'id', id, 'secret', secret];
    assert.deepEqual(await redis.command('HGETALL', '{raced}:queue'), stored);
    assert.match(secret, /^[0-9a-f]{32}$/);
  });

  it('keeps the longest accepted body, which only grows', async () => {
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

  it('is usable if a server that refuses writes cannot store a longer body', async () => {
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

  it('is recreated with the same secret after it was deleted by hand', async () => {
    const server = await connected();
    const known = await queueIdentity(server, 'deleted', SYSTEM);
    await redis.command('DEL', '{deleted}:queue');
    const { id, secret } = await queueIdentity(server, 'deleted', { ...SYSTEM, known });
    assert.equal(secret, known.secret);
    assert.notEqual(id, known.id);
  });

  it('is created and read on a full server', async () => {
    const server = await connected();
    await redis.command('CONFIG', 'SET', 'maxmemory', '1');
    try {
      const { id } = await queueIdentity(server, 'full', SYSTEM);
      assert.equal((await queueIdentity(server, 'full', SYSTEM)).id, id);
    } finally {
      await redis.command('CONFIG', 'SET', 'maxmemory', '0');
    }
  });
});
