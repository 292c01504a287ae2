// One stream of a queue, for tests that open only one side of it.
import type { Clock } from '../../lib/process/clock.ts';
import { createLog } from '../../lib/process/log.ts';
import { type Durability, type QueueObserver, StreamQueue } from '../../lib/redis/accept/stream-queue.ts';
import { RedisConnection } from '../../lib/redis/server/connection.ts';
import { queueIdentity, type IdentityOptions } from '../../lib/redis/stream/identity.ts';
import { queuePartitions, type QueuePartition } from '../../lib/redis/stream/queue-partitions.ts';
import { atEnd, eventually } from './scope.ts';
import { SYSTEM } from './system.ts';

export const QUIET_LOG = createLog('test', 'error').child({}, { level: 'silent' });

export const WARN: Durability = { level: 'warn', replicas: 0, connections: [] };

export function partitionAt(
  uri: string,
  change: Partial<QueuePartition> = {},
  about: Partial<IdentityOptions> = {},
): QueuePartition {
  const [part] = queuePartitions(uri, 1, SYSTEM) as [QueuePartition];
  const { stream = part.stream, makes = true } = change;
  const identify: QueuePartition['identify'] = (server, known) =>
    queueIdentity(server, stream, { random: SYSTEM.random, makes, known, ...about });
  return { ...part, identify, ...change };
}

interface OpenOptions extends Partial<QueuePartition> {
  readonly clock?: Clock;
  /** The default is long enough that a busy machine causes no timeout. */
  readonly enqueueTimeoutMs?: number;
  readonly observer?: QueueObserver;
  /** The default closes the queue after all tests of the file. */
  readonly after?: (close: () => Promise<void>) => void;
}

/** Opens the accepting side, and waits until it is available. */
export async function openQueue(uri: string, options: OpenOptions = {}): Promise<StreamQueue> {
  const { clock = SYSTEM.clock, enqueueTimeoutMs = 10_000, observer = {}, after = atEnd, ...part } = options;
  const connection = new RedisConnection({ ...SYSTEM, clock, uri, name: 'test', log: QUIET_LOG });
  const queue = new StreamQueue({
    ...{ clock, connection, enqueueTimeoutMs, observer, log: QUIET_LOG, durability: WARN },
    part: partitionAt(uri, part),
  });
  after(() => queue.close());
  connection.open();
  await eventually('the queue is there', async () => connection.ready && (await queue.probe()).available);
  return queue;
}
