// The accepting side while a queue moves: what the previous queue knows of an id decides first.
// test/end-to-end/queue-move.long.ts moves a queue under load.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import type { Queue } from '../../lib/ingest/queue.ts';
import { createLog } from '../../lib/process/log.ts';
import { acceptingQueue } from '../../lib/redis/open-queue.ts';
import { Recorded, submitAll } from '../contract/queue.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';

const LOG = createLog('test', 'error');
LOG.level = 'silent';

interface Opened {
  readonly queue: Queue;
  /** The connection to the queue before. */
  readonly previous: ReturnType<typeof acceptingQueue>['previous'];
}

const open = async (redis: TestRedis): Promise<Queue> => (await openMoving(redis)).queue;

async function openMoving(redis: TestRedis, previousUri?: string): Promise<Opened> {
  const options = { uri: redis.uri, partitions: 1, name: 'test', replicas: 0, enqueueTimeoutMs: 10_000, log: LOG };
  const { queue, parts, previous } = acceptingQueue({ ...options, previousUri });
  atEnd(() => queue.close());
  previous?.open();
  for (const { connection } of parts) connection.open();
  await eventually('the queue is there', async () => {
    await Promise.all(parts.map((part) => part.queue.probe()));
    return queue.state().available;
  });
  return { queue, previous };
}

describe('a queue that takes the place of another one', () => {
  let servers: readonly [TestRedis, TestRedis];
  let moving: Queue;
  let previous: Opened['previous'];
  before(async () => {
    servers = [await TestRedis.start(), await TestRedis.start()];
    const before = await open(servers[0]);
    const old = [new Recorded('one', 'urn:Shop', { n: 1 }), new Recorded('two', 'urn:Shop')];
    assert.deepEqual(await submitAll(before, old), ['accepted', 'accepted']);
    ({ queue: moving, previous } = await openMoving(servers[1], servers[0].uri));
  });

  it('knows the ids of the one before for their very producers, and takes none of them again', async () => {
    const told = await submitAll(moving, [
      new Recorded('one', 'urn:Shop', { n: 1 }),
      new Recorded('one', 'urn:Shop', { n: 2 }),
      new Recorded('one', 'urn:shop', { n: 1 }),
      new Recorded('two', 'urn:shop'),
      new Recorded('two', 'urn:Shop '),
      new Recorded('new', 'urn:shop'),
    ]);
    assert.deepEqual(told, ['duplicate', 'differing', 'conflict', 'conflict', 'conflict', 'accepted']);
    assert.equal(await servers[0].length(), 2);
    assert.equal(await servers[1].length(), 1);
  });

  it('finds what either of them has, for its producer alone', async () => {
    for (const [id, producer, kind] of [
      ['one', 'urn:Shop', 'found'],
      ['one', 'urn:shop', 'unknown'],
      ['new', 'urn:shop', 'found'],
      ['new', 'urn:Shop', 'unknown'],
    ] as const)
      assert.equal((await moving.find(id, producer)).kind, kind, `${id} ${producer}`);
  });

  it('takes no events as soon as the one before is known to give no answers, and takes them again', async () => {
    await servers[0].signal('SIGSTOP');
    try {
      await eventually('it is told', () => !moving.state().available && previous?.ready === true);
      assert.match(JSON.stringify(moving.state()), /the previous queue: /);
      assert.deepEqual(await submitAll(moving, [new Recorded('frozen', 'urn:shop')]), ['unavailable']);
    } finally {
      await servers[0].signal('SIGCONT');
    }
    await eventually('it takes them', () => moving.state().available);
    assert.deepEqual(await submitAll(moving, [new Recorded('frozen', 'urn:shop')]), ['accepted']);
  });
});
