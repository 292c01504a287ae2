import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { GROUP, STREAM } from '../../lib/redis/stream/layout.ts';
import { Script } from '../../lib/redis/wire/script.ts';
import { connectedTo } from '../support/partition.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';

const REPLICAS = `{${STREAM}}:replicas`;
const LEASE_MS = 3_600_000;

const redis = await TestRedis.start(['--appendonly', 'no']);
const server = await connectedTo(redis.uri);
beforeEach(async () => {
  await redis.command('FLUSHALL');
  await redis.command('XGROUP', 'CREATE', STREAM, GROUP, '0', 'MKSTREAM');
});

const script = new Script('register.lua', 'fields.lua');
const register = (name: string, max = 0, idleMs = 3_600_000): Promise<unknown> =>
  script.run(server, STREAM, [name, String(LEASE_MS), String(max), GROUP, String(idleMs)]);
const leave = (name: string): Promise<unknown> => register(name, -1);
const members = async (): Promise<unknown[]> =>
  ((await redis.command('XINFO', 'CONSUMERS', STREAM, GROUP)) as unknown[][]).map(([, name]) => name);

describe('a replica', () => {
  it('does not count a replica after its lease, or with a heartbeat from before the clock was set back', async () => {
    const now = Date.now();
    for (const [name, at] of [
      ['dead', now - LEASE_MS - 1],
      ['ahead', now + LEASE_MS + 60_000],
      ['alive', now - LEASE_MS + 60_000],
    ] as const)
      await redis.command('ZADD', REPLICAS, String(at), name);
    assert.deepEqual(((await register('one', 2)) as number[])[0], 2);
    assert.deepEqual(await redis.command('ZRANGE', REPLICAS, '0', '-1'), ['alive', 'one']);
    const left = Number(await redis.command('PTTL', REPLICAS));
    assert.ok(left > LEASE_MS - 60_000 && left <= LEASE_MS, `${left}`);
  });

  it('removes a dead member, but not one that holds an entry or was active lately', async () => {
    await redis.command('XADD', STREAM, '*', 'producer', 'p', 'body', '{}');
    await redis.command('XREADGROUP', 'GROUP', GROUP, 'holding', 'STREAMS', STREAM, '>');
    for (const name of ['me', 'dead']) await redis.command('XGROUP', 'CREATECONSUMER', STREAM, GROUP, name);
    await register('me');
    assert.deepEqual(await members(), ['dead', 'holding', 'me']);
    await eventually('the dead one has been idle', async () => {
      await register('me', 0, 1);
      return !(await members()).includes('dead');
    });
    await leave('holding');
    assert.deepEqual(await members(), ['holding', 'me'], 'what it holds would be lost from the list');
    await redis.command('DEL', STREAM);
    assert.deepEqual(await leave('me'), [0, 0], 'a stream that is gone has no members');
  });
});
