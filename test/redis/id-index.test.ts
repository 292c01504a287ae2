import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import type { Clock } from '../../lib/process/clock.ts';
import type { StreamQueue } from '../../lib/redis/accept/stream-queue.ts';
import { Recorded, submitAll } from '../contract/queue.ts';
import { openQueue } from '../support/partition.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';

let redis: TestRedis;
before(async () => {
  redis = await TestRedis.start();
});

/** A clock without recurring timers, so that the trimmer, which also reads entries, runs only once. */
const ONCE: Clock = { ...SYSTEM.clock, every: () => ({ close: () => undefined, unref: () => undefined }) };

async function openTrimmed(stream: string): Promise<StreamQueue> {
  let looks = 0;
  const queue = await openQueue(redis.uri, { stream, clock: ONCE, observer: { onReport: () => (looks += 1) } });
  await eventually('its trimmer has looked', () => looks > 0);
  return queue;
}

async function reads<T>(work: () => Promise<T>): Promise<[T, number]> {
  await redis.command('CONFIG', 'RESETSTAT');
  const value = await work();
  const stats = String(await redis.command('INFO', 'commandstats'));
  return [value, Number(/^cmdstat_xrange:calls=(\d+)/m.exec(stats)?.[1] ?? 0)];
}

const times = <T>(count: number, make: (at: number) => T): T[] => Array.from({ length: count }, (_, at) => make(at));
const tallied = (outcomes: readonly string[]): Record<string, number> =>
  Object.fromEntries([...new Set(outcomes)].map((one) => [one, outcomes.filter((other) => other === one).length]));

describe('a repeated id', () => {
  for (const [kind, text] of [
    ['short', ''],
    ['long', 'a'.repeat(255_000)],
  ] as const)
    it(`decides a repeated id without reading an entry: ${kind} bodies`, async () => {
      const queue = await openTrimmed(`unread-${kind}`);
      const first = new Recorded('one', 'p', { text });
      assert.deepEqual(await submitAll(queue, [first]), ['accepted']);
      const repeats = [
        ...times(200, (at) => new Recorded('one', 'p', { at })),
        ...times(40, () => new Recorded('one', 'q')),
        first.again(),
      ];
      const [outcomes, count] = await reads(() => submitAll(queue, repeats));
      assert.deepEqual(tallied(outcomes), { differing: 200, conflict: 40, duplicate: 1 });
      assert.equal(count, 0);
    });

  it('calls an id a duplicate after its entry was deleted, and accepts it after the stream was', async () => {
    const [stream, queue] = ['deleted', await openTrimmed('deleted')];
    const event = (id: string, producer = 'p'): Recorded => new Recorded(id, producer);
    assert.deepEqual(
      tallied(
        await submitAll(
          queue,
          ['one', 'two', 'three'].map((id) => event(id)),
        ),
      ),
      { accepted: 3 },
    );
    const [entry] = await redis.entries(stream);
    await redis.command('XDEL', stream, entry?.entry ?? '');
    assert.deepEqual(await submitAll(queue, [event('one'), event('two'), event('one', 'q')]), [
      'duplicate',
      'duplicate',
      'conflict',
    ]);
    assert.equal((await queue.find('one', 'p')).kind, 'unknown');
    await redis.command('DEL', stream);
    assert.deepEqual(await submitAll(queue, [event('two'), event('two'), event('new')]), [
      'accepted',
      'duplicate',
      'accepted',
    ]);
    assert.deepEqual(await submitAll(queue, [event('one')]), ['accepted'], 'the whole index went with the stream');
  });

  it('accepts an id after its stream was deleted and recreated for the group', async () => {
    const stream = 'made-again';
    assert.deepEqual(await submitAll(await openTrimmed(stream), [new Recorded('one')]), ['accepted']);
    await redis.command('DEL', stream);
    const queue = await openTrimmed(stream);
    assert.equal(await redis.command('EXISTS', stream), 1);
    assert.deepEqual(await submitAll(queue, [new Recorded('one')]), ['accepted']);
  });
});

describe('the contents of the index', () => {
  it('stores a keyed field of 14 characters and a value of 28 for each event', async () => {
    const found: string[][] = [];
    for (const stream of ['keyed', 'keyed-too']) {
      await submitAll(await openTrimmed(stream), [new Recorded('one')]);
      const start = String(await redis.command('GET', `{${stream}}:ids`));
      found.push((await redis.command('HGETALL', `{${stream}}:ids:${start}`)) as string[]);
    }
    const [[field = '', value = ''] = [], [otherField = '', otherValue = ''] = []] = found;
    assert.deepEqual([field.length, value.length], [14, 28]);
    assert.notEqual(field, otherField);
    for (const digest of [0, 8]) assert.notEqual(value.slice(digest, digest + 8), otherValue.slice(digest, digest + 8));
  });
});
