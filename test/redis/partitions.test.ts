import assert from 'node:assert/strict';
import { Socket } from 'node:net';
import type { Writable } from 'node:stream';
import { before, describe, it } from 'node:test';
import { RedisConnection } from '../../lib/redis/server/connection.ts';
import type { Server } from '../../lib/redis/wire/values.ts';
import { PartitionedQueue } from '../../lib/ingest/partitioned-queue.ts';
import { queueIdentity, type QueueIdentity } from '../../lib/redis/stream/queue-metadata.ts';
import { sharedClients } from '../../lib/redis/wire/redis-client.ts';
import { STREAM } from '../../lib/redis/stream/layout.ts';
import { acceptingStreams, startQueue } from '../../lib/redis/accept/open-queue.ts';
import { StreamQueue } from '../../lib/redis/accept/stream-queue.ts';
import { queueContract, Recorded, submitAll } from '../contract/queue.ts';
import { partitionAt, QUIET_LOG, WARN } from '../support/partition.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';
import { partitionOf } from '../../lib/ingest/partition.ts';

const streams = (partitions: number): string[] => Array.from({ length: partitions }, (_, at) => `${STREAM}-${at}`);

const identifiedBy =
  (partitions: number) =>
  (server: Server): Promise<QueueIdentity> =>
    queueIdentity(server, STREAM, { ...SYSTEM, partitions });

async function openQueue(uris: readonly string[], retentionMs?: number): Promise<PartitionedQueue> {
  const shared = sharedClients();
  const parts = uris.map((uri, at) => {
    const connection = new RedisConnection({ ...SYSTEM, uri, name: 'test', log: QUIET_LOG }, shared);
    const queue = new StreamQueue({
      ...{ clock: SYSTEM.clock, connection, enqueueTimeoutMs: 10_000, log: QUIET_LOG, durability: WARN },
      part: partitionAt(uri, {
        ...{ stream: `${STREAM}-${at}`, identify: identifiedBy(uris.length) },
        ...(retentionMs === undefined ? {} : { retentionMs }),
      }),
    });
    connection.open();
    return queue;
  });
  const queue = new PartitionedQueue(parts, 'unavailable');
  atEnd(() => queue.close());
  await eventually('every partition is there', () => queue.states().every(({ available }) => available));
  return queue;
}

function describePartitions(partitions: number): void {
  queueContract(`a queue of ${partitions} partitions`, async () => {
    const own = await TestRedis.start();
    const uris = streams(partitions).map(() => own.uri);
    return {
      open: (retentionMs) => openQueue(uris, retentionMs),
      land: async () => void (await Promise.all(streams(partitions).map((stream) => own.land(stream)))),
      outage: async (during) => {
        await own.signal('SIGKILL');
        await during();
        await own.start();
      },
      bodies: () =>
        Promise.all(
          streams(partitions).map(async (stream) =>
            (await own.entries(stream)).map(({ fields }) => fields['body'] ?? ''),
          ),
        ),
    };
  });
}

describe('a queue of several partitions', () => {
  let redis: TestRedis;
  before(async () => {
    redis = await TestRedis.start();
  });

  it('sends the events of a turn in one write, if their partitions share a server', async (t) => {
    const uri = `dispatcher://127.0.0.1:${redis.port},127.0.0.1:${redis.port}`;
    const limits = { enqueueTimeoutMs: 10_000, bodyBytesMax: 1_000 };
    const durability = { level: 'warn', replicas: 0 } as const;
    const parts = acceptingStreams({ ...SYSTEM, log: QUIET_LOG, uri, partitions: 2, limits, durability });
    atEnd(async () => void (await Promise.all(parts.map((part) => part.close()))));
    await startQueue(uri, parts, SYSTEM.clock, 10_000);
    const queue = new PartitionedQueue(parts, 'unavailable');
    const events = Array.from({ length: 20 }, (_, at) => new Recorded(`turn-${at}`));
    assert.equal(new Set(events.map(({ id }) => partitionOf(id, 2))).size, 2);
    // The client corks the socket while it writes the commands of a turn.
    const { mock } = t.mock.method(Socket.prototype as Required<Writable>, '_writev');
    const turnWrites = () =>
      mock.calls.filter((call) => call.arguments[0].some(({ chunk }) => /turn-\d/.test(String(chunk))));
    const outcomes = submitAll(queue, events);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(turnWrites().length, 1);
    assert.deepEqual(new Set(await outcomes), new Set(['accepted']));
  });
});

describe('queues of 1, 2 and 8 partitions', { tags: ['long'] }, () => {
  for (const partitions of [1, 2, 8]) describePartitions(partitions);
});
