// The description of a stream, for tests that open only one side of a queue.
import type { Durability } from '../../lib/redis/accept/stream-queue.ts';
import { queueIdentity, type IdentityOptions } from '../../lib/redis/stream/identity.ts';
import { queuePartitions, type QueuePartition } from '../../lib/redis/stream/queue-partitions.ts';
import { SYSTEM } from './system.ts';

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
