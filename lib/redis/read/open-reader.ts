// The reading side of the queue that a URI names, over all its partitions. A file of its own, because reading needs
// node-redis, and a program that only accepts does not.
import type { QueueLook } from '../../ingest/queue.ts';
import type { ClockAndRandom } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import { memberName } from './membership.ts';
import { queuePartitions } from '../stream/queue-partitions.ts';
import { PartitionedReader } from './partitioned-reader.ts';
import { StreamReader } from './stream-reader.ts';

interface ReadingOptions extends ClockAndRandom {
  readonly uri: string;
  /** Of a queue on a Redis Cluster; 8 by default. */
  readonly partitions?: number;
  readonly log: Log;
  /** Called with what each look at a partition saw, and the partition's name. */
  readonly onLook?: (look: QueueLook, partition: string) => void;
}

export function readingQueue(options: ReadingOptions): StreamReader | PartitionedReader {
  const { uri, partitions = 8, onLook, ...rest } = options;
  const { clock, random } = rest;
  const parts = queuePartitions(uri, partitions, { clock, random });
  const name = memberName(random);
  const readers = parts.map((part, at) => {
    const partition = String(at);
    const log = parts.length === 1 ? rest.log : rest.log.child({ partition });
    const looked = (look: QueueLook): void => onLook?.(look, partition);
    return [partition, new StreamReader({ ...rest, ...part, name, log, onLook: looked })] as const;
  });
  const [first] = readers;
  return readers.length === 1 && first !== undefined ? first[1] : new PartitionedReader(new Map(readers), rest);
}
