// The accepting side of the queue that a URI names, over all its partitions. The reading side is opened in
// open-reader.ts.
import type { Queue, QueueLook } from '../../ingest/queue.ts';
import type { Credentials } from '../../process/credentials.ts';
import { ByteClient } from '../wire/byte-client.ts';
import { type RedisConnection, byteConnection } from '../server/client.ts';
import { PartitionedQueue } from './partitioned-queue.ts';
import type { Reply } from '../wire/reply.ts';
import { CONNECTIONS } from './replicated-sender.ts';
import { queuePartitions } from '../stream/queue-partitions.ts';
import { SharedClients, TurnEnd } from '../server/shared-clients.ts';
import { StreamQueue, type StreamQueueOptions } from './stream-queue.ts';

export interface StreamsOptions extends Omit<
  StreamQueueOptions,
  'connection' | 'stream' | 'identify' | 'replicated' | 'behind' | 'onLook'
> {
  /** Called with what each look at a partition saw, and the partition's number. */
  readonly onLook?: ((look: QueueLook, partition: string) => void) | undefined;
  readonly uri: string;
  /** What the user and the password of each connection are; by default those of the URI. */
  readonly credentials?: Credentials | undefined;
  readonly partitions: number;
  /** Shown by `CLIENT LIST`. */
  readonly name: string;
  /** How many replicas must have an event before it counts as accepted. */
  readonly replicas: number;
  /**
   * The longest body that is accepted, in bytes, for consumers to know how many to read at a time; left out, they read
   * few.
   */
  readonly bodyBytesMax?: number;
}

/** A queue's accepting side. Each of `parts` is a partition, whose connection is to be opened. */
export interface AcceptingQueue {
  readonly queue: Queue;
  readonly parts: readonly { readonly connection: RedisConnection<Reply>; readonly queue: StreamQueue }[];
}

export function acceptingQueue(options: StreamsOptions): AcceptingQueue {
  const { uri, partitions, name, replicas, bodyBytesMax = 0, onLook, ...rest } = options;
  const { clock, random } = rest;
  const { credentials } = rest;
  const how = { clock, random, credentials, accepts: bodyBytesMax, makes: rest.makes ?? true };
  const parts = queuePartitions(uri, partitions, how);
  const alone = parts.length === 1;
  const turnEnd = new TurnEnd(clock);
  const gather = turnEnd.afterwards;
  const shared = new SharedClients((server) => new ByteClient({ uri: server, name, clock, random, gather }));
  const streams = parts.map((part, at) => {
    const log = alone ? rest.log : rest.log.child({ partition: at });
    const about = { uri: part.uri, credentials, name, log, clock, random };
    const connect = (connection: string): RedisConnection<Reply> =>
      byteConnection({ ...about, log: log.child({ connection }) });
    const connection = alone ? byteConnection(about) : byteConnection(about, (server) => shared.open(server));
    const replicated =
      replicas === 0
        ? undefined
        : { replicas, connections: Array.from({ length: CONNECTIONS }, (_, n) => connect(`writing-${n}`)) };
    const together = alone ? {} : { defer: turnEnd.defer };
    const looked = (look: QueueLook): void => onLook?.(look, String(at));
    const queue = new StreamQueue({ ...rest, ...part, ...together, log, connection, replicated, onLook: looked });
    return { connection, queue };
  });
  const [only] = streams;
  const queue =
    streams.length === 1 && only !== undefined ? only.queue : new PartitionedQueue(streams.map((one) => one.queue));
  return { queue, parts: streams };
}
