// How replicas join and leave the consumer group: the scripts, and the signs of life that run them, on a real server.
import assert from 'node:assert/strict';
import { before, beforeEach, describe, it, mock } from 'node:test';
import { createLog } from '../../lib/process/log.ts';
import { memberName, Membership } from '../../lib/redis/read/membership.ts';
import { GROUP, STREAM } from '../../lib/redis/stream/layout.ts';
import type { RedisValue } from '../../lib/redis/wire/reply.ts';
import { Script } from '../../lib/redis/wire/script.ts';
import { RedisError } from '../../lib/redis/wire/errors.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const REPLICAS = `{${STREAM}}:replicas`;
const LEASE_MS = 3_600_000;

let redis: TestRedis;
before(async () => {
  redis = await TestRedis.start(['--appendonly', 'no']);
});
beforeEach(async () => {
  await redis.command('FLUSHALL');
  await redis.command('XGROUP', 'CREATE', STREAM, GROUP, '0', 'MKSTREAM');
});

const ask = (command: readonly (string | Buffer)[]): Promise<RedisValue> => {
  const [name = '', ...rest] = command.map(String);
  return (redis.command(name, ...rest) as Promise<RedisValue>).catch((cause: unknown) => {
    throw cause instanceof Error ? new RedisError(cause.message) : cause;
  });
};
const run = (script: Script, args: readonly string[]): Promise<RedisValue> =>
  script.run({ send: ask }, [...script.command(STREAM), ...args]);
const register = (name: string, max = 0): Promise<unknown> =>
  run(new Script('register.lua'), [name, String(LEASE_MS), String(max)]);
const leave = (name: string, idleMs = 0): Promise<unknown> =>
  run(new Script('leave.lua'), [GROUP, name, String(idleMs)]);
const keys = async (): Promise<string[]> => ((await redis.command('KEYS', '*')) as string[]).sort();
const members = async (): Promise<unknown[]> =>
  ((await redis.command('XINFO', 'CONSUMERS', STREAM, GROUP)) as unknown[][]).map(([, name]) => name);

describe('a replica', () => {
  it('counts once, however often it gives a sign of life', async () => {
    assert.equal(await register('one'), 1);
    assert.equal(await register('one'), 1);
    assert.equal(await register('two'), 2);
    assert.equal(await register('one'), 2);
  });

  it('has a place while there is one, and its own again', async () => {
    assert.deepEqual([await register('one', 2), await register('two', 2)], [1, 2]);
    assert.equal(await register('three', 2), -1);
    assert.equal(await register('two', 2), 2);
    assert.deepEqual(await redis.command('ZRANGE', REPLICAS, '0', '-1'), ['one', 'two']);
    await leave('one');
    assert.equal(await register('three', 2), 2);
  });

  it('is not counted once its lease is over, nor with a sign from before the clock went back', async () => {
    const now = Date.now();
    for (const [name, at] of [
      ['dead', now - LEASE_MS - 1],
      ['ahead', now + LEASE_MS + 60_000],
      ['alive', now - LEASE_MS + 60_000],
    ] as const)
      await redis.command('ZADD', REPLICAS, String(at), name);
    assert.equal(await register('one', 2), 2);
    assert.deepEqual(await redis.command('ZRANGE', REPLICAS, '0', '-1'), ['alive', 'one']);
    const left = Number(await redis.command('PTTL', REPLICAS));
    assert.ok(left > LEASE_MS - 60_000 && left <= LEASE_MS, `${left}`);
  });

  it('has a name that no other one has', () => {
    const names = Array.from({ length: 100 }, () => memberName(SYSTEM.random));
    assert.equal(new Set(names).size, 100);
    assert.ok(names[0]?.includes(`-${process.pid}-`));
  });

  it('leaves no key and no member behind, however many come and go', async () => {
    const atFirst = await keys();
    for (let at = 0; at < 5; at += 1) {
      const name = memberName(SYSTEM.random);
      await register(name);
      await redis.command('XGROUP', 'CREATECONSUMER', STREAM, GROUP, name);
      assert.equal(await leave(name), 1);
    }
    assert.deepEqual(await keys(), atFirst);
    assert.deepEqual(await members(), []);
  });

  it('that died is removed by another one, and stays while it holds an entry or was seen lately', async () => {
    await redis.command('XADD', STREAM, '*', 'producer', 'p', 'body', '{}');
    await redis.command('XREADGROUP', 'GROUP', GROUP, 'holding', 'STREAMS', STREAM, '>');
    for (const name of ['me', 'dead']) await redis.command('XGROUP', 'CREATECONSUMER', STREAM, GROUP, name);
    assert.equal(await leave('me', 3_600_000), 0);
    assert.deepEqual(await members(), ['dead', 'holding', 'me']);
    await eventually('the dead one has been idle', async () => (await leave('me', 1)) === 1);
    assert.deepEqual(await members(), ['holding', 'me']);
    assert.equal(await leave('holding'), 0, 'what it holds would be lost from the list');
    await redis.command('DEL', STREAM);
    assert.equal(await leave('me'), 0, 'a stream that is gone has no members');
  });
});

describe("a replica's membership", () => {
  /** One that begins at a second of its own, and what it asked for: signs of life, and who is to leave. */
  function member(name: string) {
    const clock = new VirtualClock();
    const log = createLog('test', 'error').child({}, { level: 'silent' });
    const warnings: unknown[] = [];
    mock.method(log, 'warn', (fields: unknown) => void warnings.push(fields));
    const asked = { signs: 0, leaves: [] as string[][] };
    let away = false;
    const membership = new Membership({
      ...{ clock, log, stream: STREAM, group: GROUP, name },
      run: async (script, command) => {
        if (command[4] === GROUP) asked.leaves.push(command.slice(4));
        else asked.signs += 1;
        if (away) throw new Error('the queue is unavailable');
        return script.run({ send: ask }, command);
      },
    });
    const signs = (count: number): Promise<unknown> => eventually(`${count} signs`, () => asked.signs === count);
    const setAway = (is: boolean): void => void (away = is);
    return { membership, clock, asked, warnings, signs, setAway };
  }

  it('shows life at once and then every second, and has dead members removed each minute', async () => {
    const { membership, clock, asked, signs } = member('one');
    assert.equal(membership.replicas, 0);
    assert.equal(await membership.register(2), true);
    assert.equal(membership.replicas, 1);
    await signs(2);
    await clock.advance(999);
    assert.equal(asked.signs, 2);
    await clock.advance(1);
    await signs(3);
    await clock.advance(58_000);
    await signs(61);
    assert.deepEqual(asked.leaves, []);
    await clock.advance(1_000);
    await eventually('dead members are looked for', () => asked.leaves.length > 0);
    assert.deepEqual(asked.leaves, [[GROUP, 'one', '600000']]);
    await clock.advance(59_000);
    await signs(121);
    assert.equal(asked.leaves.length, 1);
    await clock.advance(1_000);
    await eventually('dead members are looked for', () => asked.leaves.length === 2);
    await membership.end(true);
  });

  it('leaves the group at its end, where the queue is there, and shows no more life', async () => {
    for (const there of [true, false]) {
      const { membership, clock, asked, signs } = member('one');
      await redis.command('XGROUP', 'CREATECONSUMER', STREAM, GROUP, 'one');
      await membership.register(2);
      await signs(2);
      await membership.end(there);
      await clock.advance(5_000);
      assert.equal(asked.signs, 2);
      assert.deepEqual(asked.leaves, there ? [[GROUP, 'one', '0']] : []);
      assert.deepEqual(await members(), there ? [] : ['one']);
      assert.equal(await redis.command('EXISTS', REPLICAS), there ? 0 : 1);
    }
  });

  it('ends without a fault where its leave is refused', async () => {
    const { membership, signs, setAway } = member('one');
    membership.registerLater(1);
    await signs(1);
    setAway(true);
    await assert.doesNotReject(membership.end(true));
  });

  it('is refused where the places are taken, and shows no life then', async () => {
    await register('other');
    const { membership, clock, asked } = member('one');
    assert.equal(await membership.register(1), false);
    await clock.advance(3_000);
    assert.equal(asked.signs, 1);
    assert.equal(membership.replicas, 0);
    await membership.end(false);
  });

  it('warns once while more replicas run than there may be, and keeps counting itself', async () => {
    const { membership, clock, warnings } = member('one');
    const counted = async (replicas: number): Promise<void> => {
      await clock.advance(1_000);
      await eventually(`${replicas} are counted`, () => membership.replicas === replicas);
    };
    membership.registerLater(1);
    membership.registerLater(1);
    await counted(1);
    assert.deepEqual(warnings, []);
    for (let turn = 1; turn <= 2; turn += 1) {
      await register('two');
      await counted(2);
      await counted(2);
      await register('three');
      await counted(3);
      await eventually('it is told', () => warnings.length === turn);
      for (const name of ['two', 'three']) await leave(name);
      await counted(1);
    }
    assert.deepEqual(warnings, [{ replicas: 2 }, { replicas: 2 }]);
    await membership.end(true);
  });

  it('shows life again once the queue is back', async () => {
    const { membership, clock, signs, setAway } = member('one');
    setAway(true);
    membership.registerLater(1);
    await signs(1);
    await clock.advance(1_000);
    await signs(2);
    assert.equal(membership.replicas, 0);
    setAway(false);
    await clock.advance(1_000);
    await eventually('it is counted', () => membership.replicas === 1);
    await membership.end(true);
  });
});
