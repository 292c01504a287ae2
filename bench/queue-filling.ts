// Fills a queue with the gateway's own queue code, which is faster than HTTP and has the same result in Redis.
import { createLog } from '../lib/process/log.ts';
import { SETTINGS } from '../lib/process/settings.ts';
import { type ConnectionOptions, RedisConnection } from '../lib/redis/server/connection.ts';
import { queuePartitions, type QueuePartition } from '../lib/redis/stream/queue-partitions.ts';
import type { RedisValue } from '../lib/redis/wire/values.ts';
import { StreamQueue } from '../lib/redis/accept/stream-queue.ts';
import type { Outcome } from '../lib/ingest/queue.ts';
import type { RunningServer } from './bench-environment.ts';
import { CANONICAL_BODY_BYTES, eventBody, idSource } from './load/workload.ts';
import { WARN } from '../test/support/partition.ts';
import { eventually } from '../test/support/scope.ts';
import { SYSTEM } from '../lib/process/clock.ts';

const IN_FLIGHT = 1_000;

const optionsFor = (redis: RunningServer): ConnectionOptions => ({
  ...SYSTEM,
  uri: `redis://127.0.0.1:${redis.port}`,
  name: 'bench',
  log: createLog('bench', 'error'),
});

async function withConnection<T>(connection: RedisConnection, work: () => Promise<T>): Promise<T> {
  const ready = new Promise<void>((resolve) => connection.tell({ onReady: resolve }));
  connection.open();
  await ready;
  try {
    return await work();
  } finally {
    connection.close();
  }
}

export function redisCommand(redis: RunningServer, args: readonly string[]): Promise<RedisValue> {
  const connection = new RedisConnection(optionsFor(redis));
  return withConnection(connection, () => connection.send(args));
}

/** Throws if an event is not accepted. */
export async function fillQueue(redis: RunningServer, count: number, bytes = CANONICAL_BODY_BYTES): Promise<void> {
  const nextId = idSource();
  const connection = new RedisConnection(optionsFor(redis));
  const accepts = SETTINGS.INGEST_BODY_BYTES_MAX.default;
  const [part] = queuePartitions(optionsFor(redis).uri as string, 1, { ...SYSTEM, accepts }) as [QueuePartition];
  const queue = new StreamQueue({
    clock: SYSTEM.clock,
    part,
    connection,
    enqueueTimeoutMs: 30_000,
    log: createLog('bench', 'error'),
    durability: WARN,
  });
  connection.open();
  try {
    await eventually('the queue takes events', async () => (await queue.probe()).available);
    for (let filled = 0; filled < count;) {
      const some = Math.min(IN_FLIGHT, count - filled);
      const outcomes = await Promise.all(
        Array.from({ length: some }, () => {
          const id = nextId();
          const text = eventBody(id, bytes);
          return new Promise<Outcome>((settle) => queue.submit({ id, producer: 'urn:bench:producer', text, settle }));
        }),
      );
      const failed = outcomes.find((outcome) => outcome !== 'accepted');
      if (failed !== undefined) throw new Error(`filling the queue: an event was ${failed}`);
      filled += some;
    }
  } finally {
    await queue.close();
  }
}

/** Appends the same bodies to a plain stream, which is the minimum that a queue needs. */
export async function fillStream(redis: RunningServer, count: number, bytes: number): Promise<void> {
  const connection = new RedisConnection(optionsFor(redis));
  await withConnection(connection, async () => {
    const nextId = idSource();
    for (let filled = 0; filled < count; filled += IN_FLIGHT) {
      const some = Math.min(IN_FLIGHT, count - filled);
      await Promise.all(
        Array.from({ length: some }, () =>
          connection.send(['XADD', 'ingest', '*', 'body', eventBody(nextId(), bytes)]),
        ),
      );
    }
  });
}

export async function redisMemory(redis: RunningServer): Promise<number> {
  const info = await redisCommand(redis, ['INFO', 'memory']);
  return Number(/^used_memory:(\d+)/m.exec(String(info))?.[1]);
}
