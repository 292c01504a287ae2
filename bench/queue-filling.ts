// Fills a queue with the gateway's own queue code, which is faster than HTTP and has the same result in Redis.
import { createLog } from '../lib/process/log.ts';
import { SETTINGS } from '../lib/process/settings.ts';
import { RedisConnection } from '../lib/redis/server/connection.ts';
import { queuePartitions, type QueuePartition } from '../lib/redis/stream/queue-partitions.ts';
import { StreamQueue } from '../lib/redis/accept/stream-queue.ts';
import type { Outcome } from '../lib/ingest/queue.ts';
import type { RunningServer } from './bench-environment.ts';
import { CANONICAL_BODY_BYTES, eventBody, idSource } from './load/workload.ts';
import { WARN } from '../test/support/partition.ts';
import { PlainRedis } from '../test/support/plain-redis.ts';
import { eventually } from '../test/support/scope.ts';
import { SYSTEM } from '../lib/process/clock.ts';

const IN_FLIGHT = 1_000;

const log = createLog('bench', 'error');

export async function redisCommand({ port }: RunningServer, ...command: readonly string[]): Promise<unknown> {
  const client = await PlainRedis.open(port);
  return client.call(...command).finally(() => client.close());
}

/** Throws if an event is not accepted. */
export async function fillQueue(redis: RunningServer, count: number, bytes = CANONICAL_BODY_BYTES): Promise<void> {
  const nextId = idSource();
  const uri = `redis://127.0.0.1:${redis.port}`;
  const connection = new RedisConnection({ ...SYSTEM, uri, name: 'bench', log });
  const accepts = SETTINGS.INGEST_BODY_BYTES_MAX.default;
  const [part] = queuePartitions(uri, 1, { ...SYSTEM, accepts }) as [QueuePartition];
  const { clock } = SYSTEM;
  const queue = new StreamQueue({ clock, part, connection, enqueueTimeoutMs: 30_000, log, durability: WARN });
  connection.open();
  try {
    await eventually('the queue takes events', async () => (await queue.probe()).available);
    for (let filled = 0; filled < count;) {
      const some = Math.min(IN_FLIGHT, count - filled);
      const outcomes = await Promise.all(
        Array.from({ length: some }, () => {
          const id = nextId();
          const body = Buffer.from(eventBody(id, bytes));
          return new Promise<Outcome>((settle) => queue.submit({ id, producer: 'urn:bench:producer', body, settle }));
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
export async function fillStream({ port }: RunningServer, count: number, bytes: number): Promise<void> {
  const client = await PlainRedis.open(port);
  const nextId = idSource();
  for (let filled = 0; filled < count; filled += IN_FLIGHT) {
    const some = Array.from({ length: Math.min(IN_FLIGHT, count - filled) }, () => eventBody(nextId(), bytes));
    await Promise.all(some.map((body) => client.call('XADD', 'ingest', '*', 'body', body)));
  }
  client.close();
}

export async function redisMemory(redis: RunningServer): Promise<number> {
  return Number(/^used_memory:(\d+)/m.exec(String(await redisCommand(redis, 'INFO', 'memory')))?.[1]);
}
