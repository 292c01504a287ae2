// The queue that a URI names, as its partitions, and the implementations of both ports over them. Of one server, or one master that
// Sentinel watches, there is one partition, the stream `ingest`, and the implementation is that stream's own.
import type { Queue } from '../ingest/queue.ts';
import type { Log } from '../process/log.ts';
import { queueAddress } from '../process/queue-uri.ts';
import { askOnce } from './ask-once.ts';
import { byteConnection, type MasterLookup, type RedisConnection, type Server } from './client.ts';
import { ClusterMap } from './cluster-map.ts';
import { QueueRefusal } from './errors.ts';
import { PartitionedQueue } from './partitioned-queue.ts';
import { PartitionedReader } from './partitioned-reader.ts';
import { queueIdentity, type QueueIdentity } from './queue-identity.ts';
import type { Reply } from './reply.ts';
import { sentinelLookup } from './sentinel-lookup.ts';
import { STREAM } from './stream-names.ts';
import { StreamQueue, type StreamQueueOptions } from './stream-queue.ts';
import { memberName, StreamReader } from './stream-reader.ts';

/** So long the identity of a queue of several partitions is not asked for again. */
const IDENTITY_FRESH_MS = 1_000;

export interface QueuePartition {
  readonly stream: string;
  readonly uri: string | MasterLookup;
  /** Undefined: by the stream's own metadata. */
  readonly identify?: () => Promise<QueueIdentity>;
}

/** The partitions of a queue, in order. `count` is that of a Redis Cluster. Throws at a URI that config.ts would refuse. */
export function queuePartitions(uri: string, count: number): readonly QueuePartition[] {
  const address = queueAddress(uri);
  if (typeof address === 'string') throw new Error(address);
  if (address.kind === 'server') return [{ stream: STREAM, uri: address.uri }];
  if (address.kind === 'sentinel') return [{ stream: STREAM, uri: sentinelLookup(address) }];
  const map = new ClusterMap(address);
  const identify = clusterIdentity(map.lookup(STREAM), count);
  return Array.from({ length: count }, (_, at) => {
    const stream = `${STREAM}-${at}`;
    return { stream, uri: map.lookup(stream), identify };
  });
}

/**
 * The identity of a queue of several partitions. It stands on one node, which may be away while others are not: the last answer
 * serves then.
 */
function clusterIdentity(lookup: MasterLookup, partitions: number): () => Promise<QueueIdentity> {
  const ask = (server: Server): Promise<QueueIdentity> => queueIdentity(server, STREAM, partitions, false);
  let known: QueueIdentity | undefined;
  let asking: Promise<QueueIdentity> | undefined;
  let askedMs = Number.NEGATIVE_INFINITY;
  return () => {
    if (asking !== undefined && performance.now() - askedMs < IDENTITY_FRESH_MS) return asking;
    askedMs = performance.now();
    asking = lookup(undefined)
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

export interface AcceptingOptions extends Omit<StreamQueueOptions, 'connection' | 'stream' | 'identify'> {
  readonly uri: string;
  readonly partitions: number;
  /** Shown by `CLIENT LIST`. */
  readonly name: string;
}

/** A queue's accepting side. Each of `streams` is a partition, whose connection is to be opened. */
export interface AcceptingQueue {
  readonly queue: Queue;
  readonly streams: readonly { readonly connection: RedisConnection<Reply>; readonly queue: StreamQueue }[];
}

export function acceptingQueue(options: AcceptingOptions): AcceptingQueue {
  const { uri, partitions, name, ...rest } = options;
  const parts = queuePartitions(uri, partitions);
  const streams = parts.map((part, at) => {
    const log = parts.length === 1 ? rest.log : rest.log.child({ partition: at });
    const connection = byteConnection({ uri: part.uri, name, log });
    return { connection, queue: new StreamQueue({ ...rest, ...part, log, connection }) };
  });
  const [only] = streams;
  const queue =
    streams.length === 1 && only !== undefined ? only.queue : new PartitionedQueue(streams.map((one) => one.queue));
  return { queue, streams };
}

export interface ReadingOptions {
  readonly uri: string;
  readonly partitions: number;
  readonly log: Log;
  /** See StreamReaderOptions. */
  readonly unlandedMs: number;
  readonly onLost: (events: number) => void;
}

export function readingQueue({ uri, partitions, ...rest }: ReadingOptions): StreamReader | PartitionedReader {
  const parts = queuePartitions(uri, partitions);
  const name = memberName();
  const readers = parts.map(
    (part, at) =>
      new StreamReader({
        ...rest,
        ...part,
        name,
        log: parts.length === 1 ? rest.log : rest.log.child({ partition: at }),
      }),
  );
  const [only] = readers;
  if (readers.length === 1 && only !== undefined) return only;
  return new PartitionedReader(new Map(readers.map((reader, at) => [String(at), reader])), rest.log);
}
