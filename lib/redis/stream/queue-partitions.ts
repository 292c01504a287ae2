// The streams of the queue that a URI names: `ingest` on one server or on a master that Sentinel watches; `ingest-a`
// and `ingest-b` with a dispatcher; or `ingest-0`, `ingest-1`, … on a Redis Cluster.
import { RETENTION_MS } from '../../ingest/queue.ts';
import type { ClockAndRandom } from '../../process/clock.ts';
import { messageOf } from '../../process/message-of.ts';
import { queueAddress } from '../../process/queue-uri.ts';
import { shared } from '../../process/share-call.ts';
import { askOnce } from '../server/ask-once.ts';
import type { Server } from '../wire/values.ts';
import { ClusterMap } from '../server/cluster-map.ts';
import { QueueRefusal, refusedAs, SettingRefused } from '../wire/errors.ts';
import type { MasterLookup } from '../server/connection.ts';
import { queueIdentity, type Identify, type IdentityOptions, type QueueIdentity } from './queue-metadata.ts';
import { sentinelLookup } from '../server/sentinel-lookup.ts';
import { keyOf, STREAM, TWO_STREAMS } from './layout.ts';

export interface QueuePartition {
  readonly stream: string;
  readonly uri: string | MasterLookup;
  readonly identify: Identify;
  /** False for a check, which creates neither metadata nor a group, and trims nothing. */
  readonly makes: boolean;
  readonly retentionMs: number;
  /** The longest body that this program accepts. */
  readonly bodyBytesMax?: number | undefined;
}

export type PartitionsOptions = ClockAndRandom & Pick<IdentityOptions, 'accepts' | 'makes'>;

/** `count` is used for a Redis Cluster only. Throws if the configuration would refuse the URI. */
export function queuePartitions(
  uri: string,
  count: number,
  { clock, random, ...about }: PartitionsOptions,
): readonly QueuePartition[] {
  const address = queueAddress(uri);
  if (typeof address === 'string') throw new Error(address);
  const system = { clock, random };
  const options = { ...about, random };
  const part = (stream: string, place: QueuePartition['uri'], identify: Identify): QueuePartition => {
    const { makes = true, accepts: bodyBytesMax } = about;
    return { stream, uri: place, identify, makes, retentionMs: RETENTION_MS, bodyBytesMax };
  };
  if (address.kind === 'dispatcher')
    return address.uris.map((place, at) =>
      part(TWO_STREAMS[at] ?? '', place, dispatcherIdentity(address.uris, at, system, options)),
    );
  if (address.kind !== 'cluster') {
    const place = address.kind === 'server' ? address.uri : sentinelLookup(address, system);
    return [part(STREAM, place, (server, known) => queueIdentity(server, STREAM, { ...options, known }))];
  }
  const map = new ClusterMap(address, system);
  const identify = clusterIdentity(map.lookup(STREAM), system, { ...options, partitions: count, plain: false });
  return Array.from({ length: count }, (_, at) => `${STREAM}-${at}`).map((stream) =>
    part(stream, map.lookup(stream), identify),
  );
}

function dispatcherIdentity(
  uris: readonly [string, string],
  at: number,
  system: ClockAndRandom,
  options: IdentityOptions,
): Identify {
  const [stream = '', other = ''] = at === 0 ? TWO_STREAMS : TWO_STREAMS.toReversed();
  return async (server, known) => {
    if (uris[0] !== uris[1] && (await isUnknown(server, stream, other)) && options.makes !== false)
      // If swapped hosts wrote metadata to a new server, the correct order would be refused later.
      await askOnce(system, uris[1 - at] ?? '', (otherServer) => isUnknown(otherServer, other, stream)).catch(
        (cause: unknown) => {
          if (cause instanceof SettingRefused) throw cause;
        },
      );
    return queueIdentity(server, stream, { ...options, known });
  };
}

/**
 * True if `server` has no metadata of `stream`. Rejects if the hosts are swapped, which would hide the events of both
 * streams, and look up each id on the wrong queue.
 */
async function isUnknown(server: Server, stream: string, other: string): Promise<boolean> {
  // A user without rights to the other stream cannot use it by mistake.
  const forbidden = refusedAs(0, ({ code }) => code === 'NOPERM');
  const has = async (name: string): Promise<boolean> =>
    (await server.send(['EXISTS', keyOf(name, 'queue')]).catch(forbidden)) === 1;
  if (await has(stream)) return false;
  if (await has(other))
    throw new SettingRefused(
      `the server for ${stream} holds the queue ${other}: the hosts are swapped, write them in the other order`,
    );
  return true;
}

/** Returns the identity of a queue on a cluster, or the last known one if its node is unavailable. */
function clusterIdentity(
  lookup: MasterLookup,
  system: ClockAndRandom,
  options: IdentityOptions,
): () => Promise<QueueIdentity> {
  const ask = (server: Server): Promise<QueueIdentity> => queueIdentity(server, STREAM, { ...options, known });
  let known: QueueIdentity | undefined;
  return shared(async () => {
    try {
      known = await askOnce(system, await lookup.find(undefined), ask);
    } catch (cause) {
      if (cause instanceof QueueRefusal) throw cause;
      // MOVED and READONLY are hidden, because they concern the metadata's key and not the partition that asks.
      if (known === undefined) throw new Error(`the queue's metadata cannot be read (${messageOf(cause)})`, { cause });
    }
    return known;
  });
}
