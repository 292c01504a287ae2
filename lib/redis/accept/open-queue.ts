// Opens the accepting side of each stream that a queue URI names.
import type { QueueReport } from '../../ingest/queue.ts';
import type { Clock, ClockAndRandom } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import { ByteClient } from '../wire/byte-client.ts';
import { RedisConnection } from '../server/client.ts';
import { isPasswordRefused, type QueueRefusal } from '../wire/errors.ts';
import { CONNECTIONS } from './replicated-sender.ts';
import { inspectQueue, queueAway, queueFailure, queueRefused } from '../stream/inspect-queue.ts';
import { queuePartitions } from '../stream/queue-partitions.ts';
import { SharedClients } from '../server/shared-clients.ts';
import { type Durability, type QueueObserver, StreamQueue } from './stream-queue.ts';

export interface StreamsOptions extends ClockAndRandom {
  readonly log: Log;
  readonly uri: string;
  /** Used for a Redis Cluster only. */
  readonly partitions: number;
  readonly limits: {
    readonly enqueueTimeoutMs: number;
    /** The longest accepted body: consumers read as many entries at a time as it allows. */
    readonly bodyBytesMax: number;
  };
  readonly durability: Omit<Durability, 'connections'>;
  /** `onReport` also receives the partition's number. */
  readonly observer?: Pick<QueueObserver, 'onCall'> & {
    readonly onReport?: (report: QueueReport, partition: string) => void;
  };
}

/** Shown by `CLIENT LIST`. */
const NAME = 'ingest-gateway';

/** The accepting side of one stream. The caller opens its connection. */
export interface AcceptingStream {
  readonly connection: RedisConnection;
  readonly queue: StreamQueue;
}

/** In order of partitions. `makes`: see QueuePartition. */
export function acceptingStreams(options: StreamsOptions, makes = true): readonly AcceptingStream[] {
  const { uri, partitions, limits, durability, observer, clock, random } = options;
  const { enqueueTimeoutMs, bodyBytesMax: accepts } = limits;
  const parts = queuePartitions(uri, partitions, { clock, random, accepts, makes });
  const alone = parts.length === 1;
  // The flushes of all partitions in this turn come first, so their calls leave in one write.
  const gather = (write: () => void): void => clock.turnEnd(write);
  const shared = new SharedClients((server) => new ByteClient({ uri: server, name: NAME, clock, random, gather }));
  return parts.map((part, at) => {
    const log = alone ? options.log : options.log.child({ partition: at });
    const about = { uri: part.uri, name: NAME, log, clock, random };
    const connect = (connection: string): RedisConnection =>
      new RedisConnection({ ...about, log: log.child({ connection }) });
    const connection = alone ? new RedisConnection(about) : new RedisConnection(about, (server) => shared.open(server));
    const length = durability.replicas === 0 ? 0 : CONNECTIONS;
    const queue = new StreamQueue({
      ...{ clock, log, part, connection, enqueueTimeoutMs },
      durability: { ...durability, connections: Array.from({ length }, (_, n) => connect(`writing-${n}`)) },
      observer: { ...observer, onReport: (report) => observer?.onReport?.(report, String(at)) },
    });
    return { connection, queue };
  });
}

const LOOK_MS = 25;

/** Connects, and polls until every stream accepts events. Returns the reason if none does in time or one is refused. */
async function whyNotStarted(
  streams: readonly AcceptingStream[],
  clock: Clock,
  timeoutMs: number,
): Promise<QueueRefusal | string | undefined> {
  let refusal: QueueRefusal | undefined;
  for (const { connection } of streams) {
    connection.tell({ onRefused: (cause) => (refusal ??= cause) });
    connection.open();
  }
  const deadline = clock.ms() + timeoutMs;
  for (;;) {
    const states = await Promise.all(
      streams.map(async ({ connection, queue }) =>
        connection.ready ? await queue.probe() : { available: false as const, reason: connection.lastError },
      ),
    );
    if (states.every(({ available }) => available)) return undefined;
    if (refusal !== undefined) return refusal;
    // A rewrite may take minutes. Meanwhile the gateway listens and is not ready.
    if (streams.every(({ queue }, at) => states[at]?.available === true || queue.awaitsRewrite)) return undefined;
    if (clock.ms() > deadline) {
      const reason = states.find((state) => !state.available)?.reason ?? '';
      return states.some(({ available }) => available) ? undefined : reason;
    }
    await clock.sleep(LOOK_MS);
  }
}

/**
 * Waits until the queue accepts events. Rejects with a StartFailure that names `uri`, the value of INGEST_QUEUE_URI.
 */
export async function startQueue(
  uri: string,
  streams: readonly AcceptingStream[],
  clock: Clock,
  timeoutMs: number,
): Promise<void> {
  const why = await whyNotStarted(streams, clock, timeoutMs);
  if (why === undefined) return;
  if (typeof why !== 'string') throw queueRefused(uri, why);
  if (isPasswordRefused(why)) throw queueAway(uri, why);
  throw queueFailure(
    uri,
    `the queue takes no events (${why}); check that the server runs, is reachable and can be written to`,
  );
}

/** Connects without writing anything, and returns a sentence about the queue. Rejects with a StartFailure. */
export async function inspectGatewayQueue(options: StreamsOptions, timeoutMs: number): Promise<string> {
  const { uri, partitions, clock, random } = options;
  const about = await inspectQueue({ uri, partitions, program: 'gateway' }, { clock, random });
  const streams = acceptingStreams(options, false);
  try {
    await startQueue(uri, streams, clock, timeoutMs);
    const awaits = streams.some(({ queue }) => queue.awaitsRewrite);
    return `${about}, takes events${awaits ? ' once its append-only file has been rewritten' : ''}`;
  } finally {
    await Promise.all(streams.map(({ queue }) => queue.close()));
  }
}
