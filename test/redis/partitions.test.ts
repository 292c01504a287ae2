// Queues of 2 partitions on one Redis: both contracts, and what only several partitions can do.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { createLog } from '../../lib/process/log.ts';
import { ByteClient } from '../../lib/redis/wire/byte-client.ts';
import { type Server, byteConnection } from '../../lib/redis/server/client.ts';
import { PartitionedQueue } from '../../lib/ingest/partitioned-queue.ts';
import { PartitionedReader } from '../../lib/redis/read/partitioned-reader.ts';
import { queueIdentity, type QueueIdentity } from '../../lib/redis/stream/identity.ts';
import { SharedClients, TurnEnd } from '../../lib/redis/server/shared-clients.ts';
import { GROUP, STREAM } from '../../lib/redis/stream/layout.ts';
import { StreamQueue } from '../../lib/redis/accept/stream-queue.ts';
import { memberName } from '../../lib/redis/read/membership.ts';
import { StreamReader } from '../../lib/redis/read/stream-reader.ts';
import { queueContract, Recorded, submitAll } from '../contract/queue.ts';
import { describeQueueReader } from '../contract/queue-reader.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';
import { partitionOf } from '../../lib/ingest/partition.ts';
import { openLink, type Link } from '../support/link.ts';

const LOG = createLog('test', 'error');
LOG.level = 'silent';

const streams = (partitions: number): string[] => Array.from({ length: partitions }, (_, at) => `${STREAM}-${at}`);

const identifiedBy =
  (partitions: number) =>
  (server: Server): Promise<QueueIdentity> =>
    queueIdentity(server, STREAM, { ...SYSTEM, partitions });

/** `uris` by partition, where they differ. */
async function openQueue(uris: readonly string[], retentionMs?: number): Promise<PartitionedQueue> {
  const { defer, afterwards } = new TurnEnd(SYSTEM.clock);
  const shared = new SharedClients(
    (server) => new ByteClient({ ...SYSTEM, uri: server, name: 'test', gather: afterwards }),
  );
  const parts = uris.map((uri, at) => {
    const connection = byteConnection({ ...SYSTEM, uri, name: 'test', log: LOG }, (server) => shared.open(server));
    const queue = new StreamQueue({
      ...SYSTEM,
      connection,
      enqueueTimeoutMs: 10_000,
      log: LOG,
      defer,
      stream: `${STREAM}-${at}`,
      identify: identifiedBy(uris.length),
      ...(retentionMs === undefined ? {} : { retentionMs }),
    });
    connection.open();
    return queue;
  });
  const queue = new PartitionedQueue(parts, 'unavailable');
  atEnd(() => queue.close());
  await eventually('every partition is there', () => queue.states().every(({ available }) => available));
  return queue;
}

async function openReader(uris: readonly string[]): Promise<PartitionedReader> {
  const name = memberName(SYSTEM.random);
  const identify = identifiedBy(uris.length);
  const readers = new Map(
    uris.map((uri, at) => [
      String(at),
      new StreamReader({ ...SYSTEM, uri, log: LOG, stream: `${STREAM}-${at}`, name, identify }),
    ]),
  );
  const reader = new PartitionedReader(readers, { ...SYSTEM, log: LOG });
  assert.equal(await reader.open(20_000), true, reader.lastError);
  return reader;
}

function describePartitions(partitions: number): void {
  queueContract(`a queue of ${partitions} partitions`, async () => {
    const own = await TestRedis.start();
    const uris = streams(partitions).map(() => own.uri);
    return {
      open: (retentionMs) => openQueue(uris, retentionMs),
      land: async () => void (await Promise.all(streams(partitions).map((stream) => own.land(stream)))),
      bodies: () =>
        Promise.all(
          streams(partitions).map(async (stream) =>
            (await own.entries(stream)).map(({ fields }) => fields['body'] ?? ''),
          ),
        ),
    };
  });

  // The contract speaks of one source; each test uses another partition.
  let used = 0;
  let own: TestRedis;
  const stream = (): string => `${STREAM}-${used % partitions}`;
  describeQueueReader(`a queue of ${partitions} partitions`, async () => {
    own = await TestRedis.start(['--appendonly', 'no']);
    return {
      open: () => openReader(streams(partitions).map(() => own.uri)),
      put: async (members, acceptedAtMs) =>
        String(
          await own.command(
            'XADD',
            stream(),
            acceptedAtMs === undefined ? '*' : String(acceptedAtMs),
            ...Object.entries(members).flat(),
          ),
        ),
      drop: async (entry) => void (await own.command('XDEL', stream(), entry)),
      pending: async () => Number(((await own.command('XPENDING', stream(), GROUP)) as unknown[])[0]),
      next: () => (used += 1),
      wipe: async () => void (await own.command('FLUSHALL')),
      close: async () => undefined,
    };
  });
}

describePartitions(2);

describe('a queue of several partitions', () => {
  let redis: TestRedis;
  before(async () => {
    redis = await TestRedis.start();
  });

  it('gives every entry once, of every partition, also where entries of two have one name', async (t) => {
    await redis.command('FLUSHALL');
    const reader = await openReader(streams(4).map(() => redis.uri));
    t.after(() => reader.close());
    await reader.join();
    for (const stream of streams(4))
      for (const entry of ['1-1', '1-2', '1-3'])
        await redis.command('XADD', stream, entry, 'producer', 'p', 'body', '{}');
    const seen: string[] = [];
    const held = await eventually('all came', async () => {
      const deliveries = await reader.read(5, 3_600_000, 20);
      assert.ok(deliveries.length <= 5);
      seen.push(...deliveries.map(({ source, entry }) => `${source.split('/')[1]}/${entry}`));
      await reader.acknowledge(deliveries.filter(({ source }) => !source.endsWith('/ingest-2')));
      return seen.length === 12 && seen;
    });
    assert.deepEqual(
      held.toSorted(),
      streams(4).flatMap((stream) => ['1-1', '1-2', '1-3'].map((entry) => `${stream}/${entry}`)),
    );
    const pending = await Promise.all(
      streams(4).map(async (stream) => ((await redis.command('XPENDING', stream, 'warehouse')) as [number])[0]),
    );
    assert.deepEqual(pending, [0, 0, 3, 0]);
  });

  it('has one identity for all partitions, which names their number', async () => {
    await redis.command('FLUSHALL');
    await openQueue(streams(3).map(() => redis.uri));
    assert.equal(await redis.command('HGET', '{ingest}:queue', 'partitions'), '3');
    assert.deepEqual(await redis.command('KEYS', '*:queue'), ['{ingest}:queue']);
  });
});

describe('one partition away', () => {
  let redis: TestRedis;
  let link: Link;
  let uris: readonly string[];
  before(async () => {
    redis = await TestRedis.start();
    link = await openLink({ port: redis.port, host: '127.0.0.1' });
    atEnd(() => link.close());
    uris = [redis.uri, `redis://127.0.0.1:${link.port}`, redis.uri];
  });

  it('refuses its events immediately while the others take theirs, and comes back by itself', async () => {
    const queue = await openQueue(uris);
    link.cut();
    await eventually('it alone is known to be away', () => {
      assert.deepEqual(
        queue.states().map(({ available }) => available),
        [true, false, true],
      );
      assert.deepEqual(queue.state(), { available: true });
      return true;
    });
    const turn = Array.from({ length: 60 }, (_, at) => new Recorded(`away-${at}`));
    assert.deepEqual(
      await submitAll(queue, turn),
      turn.map(({ id }) => (partitionOf(id, 3) === 1 ? 'unavailable' : 'accepted')),
    );
    const [gone = assert.fail()] = turn.filter(({ id }) => partitionOf(id, 3) === 1);
    assert.deepEqual(await queue.find(gone.id, 'p'), { kind: 'unavailable' });
    link.mend();
    await eventually('it is back', () => queue.states().every(({ available }) => available));
    assert.deepEqual(
      await submitAll(
        queue,
        turn.map(({ id }) => new Recorded(id)),
      ),
      turn.map(({ id }) => (partitionOf(id, 3) === 1 ? 'accepted' : 'duplicate')),
    );
  });

  it('holds up no reading of the others, and what landed meanwhile is acknowledged when it is back', async (t) => {
    await redis.command('FLUSHALL');
    const reader = await openReader(uris);
    t.after(() => reader.close());
    await reader.join();
    const put = (stream: string, entry: string): Promise<unknown> =>
      redis.command('XADD', stream, entry, 'producer', 'p', 'body', '{}');
    await put('ingest-1', '1-1');
    const [taken = assert.fail()] = await eventually('it is read', async () => {
      const deliveries = await reader.read(10, 3_600_000, 20);
      return deliveries.length > 0 && deliveries;
    });
    link.cut();
    await eventually('it is known to be away', () => reader.states().get('1')?.available === false);
    await put('ingest-0', '2-1');
    await put('ingest-2', '2-2');
    const others: string[] = [];
    await eventually('the others come', async () => {
      others.push(...(await reader.read(10, 3_600_000, 20)).map(({ entry }) => entry));
      return others.length === 2;
    });
    assert.equal(await reader.acknowledge([taken]), 1, 'it is owed');
    link.mend();
    await eventually('it is acknowledged after all', async () => {
      await reader.read(10, 3_600_000, 20);
      const [pending] = (await redis.command('XPENDING', 'ingest-1', 'warehouse')) as [number];
      return pending === 0;
    });
  });

  it('is one that answers and refuses to be read, too, and counts as back once it is read', async (t) => {
    const [other, refusing] = [await TestRedis.start(), await TestRedis.start()];
    const reader = await openReader([other.uri, refusing.uri]);
    t.after(() => reader.close());
    await reader.join();
    const readable = async (): Promise<boolean[]> => {
      await reader.read(10, 3_600_000, 20);
      return [...reader.states().values()].map(({ available }) => available);
    };
    await eventually('both are read', async () => (await readable()).every((available) => available));
    await refusing.command('ACL', 'SETUSER', 'default', '-xreadgroup');
    await eventually('it is known', async () => !(await readable())[1]);
    assert.match(JSON.stringify(reader.states().get('1')), /NOPERM/);
    assert.deepEqual(reader.states().get('0'), { available: true });
    await refusing.command('ACL', 'SETUSER', 'default', '+xreadgroup');
    await eventually('it is back', async () => (await readable()).every((available) => available));
  });

  it('and all others away too: reads fail', async (t) => {
    const alone = await openReader(uris.map(() => `redis://127.0.0.1:${link.port}`));
    t.after(() => alone.close());
    await alone.join();
    link.cut();
    try {
      await eventually('reads fail', () => assert.rejects(alone.read(10, 3_600_000, 20)).then(() => true));
    } finally {
      link.mend();
    }
  });
});

describe('the reader of several queues', () => {
  it('knows how long bodies may be once gateways of each have said it', async (t) => {
    const redis = await TestRedis.start();
    const of = (stream: string): StreamReader =>
      new StreamReader({ ...SYSTEM, uri: redis.uri, log: LOG, stream, name: 'reader' });
    const reader = new PartitionedReader(new Map(['one', 'other'].map((stream) => [stream, of(stream)])), {
      ...SYSTEM,
      log: LOG,
    });
    t.after(() => reader.close());
    assert.equal(await reader.open(20_000), true, reader.lastError);
    await redis.command('HSET', '{one}:queue', 'bodyBytesMax', '900');
    await reader.join();
    assert.equal(reader.bodyBytesMax, undefined);
    await redis.command('HSET', '{other}:queue', 'bodyBytesMax', '700');
    await reader.join();
    assert.equal(reader.bodyBytesMax, 900);
  });
});

describe('queues of 1 and 8 partitions', { tags: ['long'] }, () => {
  for (const partitions of [1, 8]) describePartitions(partitions);
});
