// The queue that a URI names, as its partitions. Of one server, or one master that Sentinel watches, there is one
// partition, the stream `ingest`.
import type { ClockAndRandom } from '../../process/clock.ts';
import { messageOf } from '../../process/message-of.ts';
import { queueAddress } from '../../process/queue-uri.ts';
import { askOnce } from '../server/ask-once.ts';
import type { Server } from '../server/client.ts';
import { ClusterMap } from '../server/cluster-map.ts';
import { QueueRefusal } from '../wire/errors.ts';
import type { MasterLookup } from '../server/master-lookup.ts';
import { queueIdentity, type Identify, type IdentityOptions, type QueueIdentity } from './identity.ts';
import { sentinelLookup } from '../server/sentinel-lookup.ts';
import { STREAM } from './layout.ts';

/** So long the identity of a queue of several partitions is not asked for again. */
const IDENTITY_FRESH_MS = 1_000;

export interface QueuePartition {
  readonly stream: string;
  readonly uri: string | MasterLookup;
  readonly identify: Identify;
}

export type PartitionsOptions = ClockAndRandom & Pick<IdentityOptions, 'accepts' | 'makes'>;

/**
 * The partitions of a queue, in order. `count` is that of a Redis Cluster. Throws at a URI that config.ts would refuse.
 */
export function queuePartitions(
  uri: string,
  count: number,
  { clock, random, ...about }: PartitionsOptions,
): readonly QueuePartition[] {
  const address = queueAddress(uri);
  if (typeof address === 'string') throw new Error(address);
  const system = { clock, random };
  const how = { ...about, random };
  if (address.kind !== 'cluster') {
    const place = address.kind === 'server' ? address.uri : sentinelLookup(address, system);
    const identify: Identify = (server, known) => queueIdentity(server, STREAM, { ...how, known });
    return [{ stream: STREAM, uri: place, identify }];
  }
  const map = new ClusterMap(address, system);
  const identify = clusterIdentity(map.lookup(STREAM), system, { ...how, partitions: count, plain: false });
  return Array.from({ length: count }, (_, at) => {
    const stream = `${STREAM}-${at}`;
    return { stream, uri: map.lookup(stream), identify };
  });
}

/**
 * The identity of a queue of several partitions. It is on one node, which may be away while others are not: the
 * last answer serves then.
 */
function clusterIdentity(
  lookup: MasterLookup,
  system: ClockAndRandom,
  options: IdentityOptions,
): () => Promise<QueueIdentity> {
  const ask = (server: Server): Promise<QueueIdentity> => queueIdentity(server, STREAM, { ...options, known });
  let known: QueueIdentity | undefined;
  let asking: Promise<QueueIdentity> | undefined;
  let askedMs = Number.NEGATIVE_INFINITY;
  return () => {
    if (asking !== undefined && system.clock.ms() - askedMs < IDENTITY_FRESH_MS) return asking;
    askedMs = system.clock.ms();
    asking = lookup
      .find(undefined)
      .then((uri) => askOnce(system, uri, ask))
      .then(
        (identity) => (known = identity),
        (cause: unknown) => {
          asking = undefined;
          if (cause instanceof QueueRefusal) throw cause;
          if (known !== undefined) return known;
          // Another key's MOVED or READONLY says nothing of the partition that asks.
          throw new Error(`the queue's metadata cannot be read (${messageOf(cause)})`);
        },
      );
    return asking;
  };
}
