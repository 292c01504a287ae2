// The id index against those who choose ids and bodies: what a repeated id makes the server read, and ids of one field.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { before, describe, it } from 'node:test';
import { SystemClock, type Timer } from '../../lib/process/clock.ts';
import { createLog } from '../../lib/process/log.ts';
import { byteConnection } from '../../lib/redis/server/client.ts';
import { indexField } from '../../lib/redis/stream/id-index.ts';
import { StreamQueue } from '../../lib/redis/accept/stream-queue.ts';
import { Recorded, submitAll } from '../contract/queue.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';

const LOG = createLog('test', 'error');
LOG.level = 'silent';

let redis: TestRedis;
before(async () => {
  redis = await TestRedis.start();
});

/** Nothing is done again and again, such as the trimmer's look, which reads entries too. */
class OnceClock extends SystemClock {
  override every(): Timer {
    return { close: () => undefined, unref: () => undefined };
  }
}

async function openQueue(stream: string, compression: 'none' | 'zstd' = 'none'): Promise<StreamQueue> {
  const connection = byteConnection({ ...SYSTEM, uri: redis.uri, name: 'test', log: LOG });
  let looks = 0;
  const queue = new StreamQueue({
    ...SYSTEM,
    clock: new OnceClock(),
    connection,
    enqueueTimeoutMs: 10_000,
    log: LOG,
    stream,
    compression,
    onLook: () => (looks += 1),
  });
  atEnd(() => queue.close());
  connection.open();
  await eventually('the queue is there', async () => (await queue.probe()).available);
  await eventually('its trimmer has looked', () => looks > 0);
  return queue;
}

/** How often the server reads an entry meanwhile. */
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
  for (const [kind, text, compression] of [
    ['long', 'a'.repeat(255_000), 'none'],
    ['long and compressed', 'a'.repeat(255_000), 'zstd'],
    ['short and compressed', 'a'.repeat(600), 'zstd'],
  ] as const)
    it(`never makes the server read a body that is ${kind}, nor the gateway fetch it`, async () => {
      const queue = await openQueue(`unread-${kind}`, compression);
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

  it('makes the server read a short body once for a whole call', async () => {
    const queue = await openQueue('read-once');
    assert.deepEqual(await submitAll(queue, [new Recorded('one', 'p')]), ['accepted']);
    const repeats = [...times(200, (at) => new Recorded('one', 'p', { at })), new Recorded('one', 'q')];
    const [outcomes, count] = await reads(() => submitAll(queue, repeats));
    assert.deepEqual(tallied(outcomes), { differing: 200, conflict: 1 });
    assert.equal(count, 1);
  });

  it('makes the server read a megabyte in a call at most: what is beyond is to be sent again', async () => {
    const queue = await openQueue('read-bounded');
    const events = times(128, (at) => new Recorded(`one-${at}`, 'p', { text: 'a'.repeat(16_000) }));
    assert.deepEqual(tallied(await submitAll(queue, events)), { accepted: 128 });
    const repeat = (from: number): Recorded[] => events.slice(from).map(({ id }) => new Recorded(id, 'p'));
    const [outcomes, count] = await reads(() => submitAll(queue, repeat(0)));
    assert.ok(count > 60 && count < 70, `${count}`);
    assert.deepEqual(tallied(outcomes), { differing: count, unavailable: 128 - count });
    assert.deepEqual(tallied(await submitAll(queue, repeat(100))), { differing: 28 });
  });

  it('is accepted again where a long body was deleted by hand, and where the stream was', async () => {
    const [stream, queue] = ['deleted', await openQueue('deleted')];
    const long = (id: string): Recorded => new Recorded(id, 'p', { text: 'a'.repeat(20_000) });
    assert.deepEqual(tallied(await submitAll(queue, [long('one'), long('two'), long('three')])), { accepted: 3 });
    const [entry] = await redis.entries(stream);
    await redis.command('XDEL', stream, entry?.entry ?? '');
    assert.deepEqual(await submitAll(queue, [long('one'), long('two')]), ['accepted', 'duplicate']);
    await redis.command('DEL', stream, `{${stream}}:bounds`);
    assert.deepEqual(await submitAll(queue, [long('two'), long('two')]), ['accepted', 'duplicate']);
  });
});

describe("an id's field", () => {
  it("is an HMAC with the queue's secret, so it differs from queue to queue", async () => {
    const fields: string[] = [];
    for (const stream of ['keyed', 'keyed-too']) {
      await submitAll(await openQueue(stream), [new Recorded('one')]);
      const secret = String(await redis.command('HGET', `{${stream}}:queue`, 'secret'));
      const start = String(await redis.command('GET', `{${stream}}:ids`));
      const found = (await redis.command('HKEYS', `{${stream}}:ids:${start}`)) as readonly string[];
      assert.deepEqual(found, [createHmac('sha256', secret).update('one').digest('base64url').slice(0, 14)]);
      fields.push(...found);
    }
    assert.equal(new Set(fields).size, 2);
  });

  /** Notes `id` under the entry of `of`, as if both had one field. */
  async function collide(stream: string, id: string, of: string, n = 0): Promise<void> {
    const field = indexField(String(await redis.command('HGET', `{${stream}}:queue`, 'secret')));
    const slice = `{${stream}}:ids:${String(await redis.command('GET', `{${stream}}:ids`))}`;
    await redis.command('HSET', slice, field(id, n), String(await redis.command('HGET', slice, field(of, 0))));
  }

  for (const [kind, text, compression] of [
    ['short', '', 'none'],
    ['long', 'a'.repeat(20_000), 'none'],
    ['compressed', 'a'.repeat(600), 'zstd'],
  ] as const)
    it(`that is another id's makes it no duplicate, no conflict and not the other event: ${kind} bodies`, async () => {
      const stream = `collided-${kind}`;
      const queue = await openQueue(stream, compression);
      const event = (id: string, producer: string, more = {}): Recorded =>
        new Recorded(id, producer, { text, ...more });
      assert.deepEqual(await submitAll(queue, [event('first', 'p')]), ['accepted']);
      await collide(stream, 'mine', 'first');
      await collide(stream, 'theirs', 'first');
      assert.equal((await queue.find('mine', 'p')).kind, 'unknown');
      const [mine, theirs] = [event('mine', 'p'), event('theirs', 'q')];
      assert.deepEqual(await submitAll(queue, [mine, theirs]), ['accepted', 'accepted']);
      assert.deepEqual(
        await submitAll(queue, [mine.again(), event('mine', 'p', { n: 1 }), event('mine', 'q'), event('first', 'p')]),
        ['duplicate', 'differing', 'conflict', 'duplicate'],
      );
      for (const one of [mine, theirs, event('first', 'p')]) {
        const found = await queue.find(one.id, one.producer);
        assert.equal(found.kind === 'found' ? found.event.body.toString() : found.kind, one.text);
      }
      assert.equal((await queue.find('theirs', 'p')).kind, 'unknown');
      assert.equal(await redis.length(stream), 3);
    });

  it('is refused for now where both fields of it are taken', async () => {
    const [stream, queue] = ['collided-twice', await openQueue('collided-twice')];
    assert.deepEqual(await submitAll(queue, [new Recorded('first')]), ['accepted']);
    for (const n of [0, 1]) await collide(stream, 'mine', 'first', n);
    assert.deepEqual(await submitAll(queue, [new Recorded('mine')]), ['unavailable']);
  });
});
