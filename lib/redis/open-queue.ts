// The queue that a URI names, as its partitions, and its accepting side over them. Of one server, or one master that
// Sentinel watches, there is one partition, the stream `ingest`, and the implementation is that stream's own. The
// reading side is opened in open-reader.ts.
import type { Queue, QueueLook } from '../ingest/queue.ts';
import { queueAddress } from '../process/queue-uri.ts';
import { askOnce } from './ask-once.ts';
import { ByteClient, byteConnection } from './byte-client.ts';
import type { MasterLookup } from './master-lookup.ts';
import type { RedisConnection, Server } from './client.ts';
import { ClusterMap } from './cluster-map.ts';
import { QueueRefusal } from './errors.ts';
import { PartitionedQueue } from './partitioned-queue.ts';
import { queueIdentity, type Identify, type IdentityOptions, type QueueIdentity } from './queue-identity.ts';
import type { Reply } from './reply.ts';
import { CONNECTIONS } from './replicated-sender.ts';
import { sentinelLookup } from './sentinel-lookup.ts';
import { SharedClients } from './shared-clients.ts';
import { STREAM } from './stream-names.ts';
import { StreamQueue, type StreamQueueOptions } from './stream-queue.ts';
import { TurnEnd } from './turn-end.ts';

/** So long the identity of a queue of several partitions is not asked for again. */
const IDENTITY_FRESH_MS = 1_000;

export interface QueuePartition {
  readonly stream: string;
  readonly uri: string | MasterLookup;
  readonly identify: Identify;
}

/**
 * The partitions of a queue, in order. `count` is that of a Redis Cluster. Throws at a URI that config.ts would refuse.
 */
export function queuePartitions(
  uri: string,
  count: number,
  how: Pick<IdentityOptions, 'accepts' | 'makes'> = {},
): readonly QueuePartition[] {
  const address = queueAddress(uri);
  if (typeof address === 'string') throw new Error(address);
  if (address.kind !== 'cluster') {
    const place = address.kind === 'server' ? address.uri : sentinelLookup(address);
    return [
      { stream: STREAM, uri: place, identify: (server, known) => queueIdentity(server, STREAM, { ...how, known }) },
    ];
  }
  const map = new ClusterMap(address);
  const identify = clusterIdentity(map.lookup(STREAM), { ...how, partitions: count, plain: false });
  return Array.from({ length: count }, (_, at) => {
    const stream = `${STREAM}-${at}`;
    return { stream, uri: map.lookup(stream), identify };
  });
}

/**
 * The identity of a queue of several partitions. It stands on one node, which may be away while others are not: the
 * last answer serves then.
 */
function clusterIdentity(lookup: MasterLookup, options: IdentityOptions): () => Promise<QueueIdentity> {
  const ask = (server: Server): Promise<QueueIdentity> => queueIdentity(server, STREAM, { ...options, known });
  let known: QueueIdentity | undefined;
  let asking: Promise<QueueIdentity> | undefined;
  let askedMs = Number.NEGATIVE_INFINITY;
  return () => {
    if (asking !== undefined && performance.now() - askedMs < IDENTITY_FRESH_MS) return asking;
    askedMs = performance.now();
    asking = lookup
      .find(undefined)
      .then((uri) => askOnce(uri, ask))
      .then(
        (identity) => (known = identity),
        (cause: unknown) => {
          asking = undefined;
          if (cause instanceof QueueRefusal) throw cause;
          if (known !== undefined) return known;
          // Another key's MOVED or READONLY says nothing of the partition that asks.
          throw new Error(
            `the queue's metadata cannot be read (${cause instanceof Error ? cause.message : 'unknown error'})`,
          );
        },
      );
    return asking;
  };
}

export interface StreamsOptions extends Omit<
  StreamQueueOptions,
  'connection' | 'stream' | 'identify' | 'replicated' | 'behind' | 'onLook'
> {
  /** Called with what each look at a partition saw, and the partition's number. */
  readonly onLook?: ((look: QueueLook, partition: string) => void) | undefined;
  readonly uri: string;
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
  const parts = queuePartitions(uri, partitions, { accepts: bodyBytesMax, makes: rest.makes ?? true });
  const alone = parts.length === 1;
  const turnEnd = new TurnEnd();
  const shared = new SharedClients((server) => new ByteClient({ uri: server, name, gather: turnEnd.afterwards }));
  const streams = parts.map((part, at) => {
    const log = alone ? rest.log : rest.log.child({ partition: at });
    const about = { uri: part.uri, name, log };
    const connect = (): RedisConnection<Reply> => byteConnection(about);
    const connection = alone ? connect() : byteConnection(about, (server) => shared.open(server));
    const replicated =
      replicas === 0 ? undefined : { replicas, connections: Array.from({ length: CONNECTIONS }, connect) };
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
