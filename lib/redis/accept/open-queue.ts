// Opens the accepting side of each stream that a queue URI names.
import type { QueueReport } from '../../ingest/queue.ts';
import type { Clock, ClockAndRandom } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import { RedisConnection } from '../server/connection.ts';
import type { QueueRefusal } from '../wire/errors.ts';
import { CONNECTIONS } from './replicated-sender.ts';
import { failStart, inspectQueue } from '../stream/inspect-queue.ts';
import { queuePartitions } from '../stream/queue-partitions.ts';
import { sharedClients } from '../wire/redis-client.ts';
import { type Durability, type QueueObserver, StreamQueue } from './stream-queue.ts';

export interface StreamsOptions extends ClockAndRandom {
  readonly log: Log;
  readonly uri: string;
  readonly partitions: number;
  readonly limits: {
    readonly enqueueTimeoutMs: number;
    /** The longest accepted body, which determines how many entries consumers read at a time. */
    readonly bodyBytesMax: number;
  };
  readonly durability: Omit<Durability, 'connections'>;
  readonly observer?: Pick<QueueObserver, 'onCall'> & {
    readonly onReport?: (report: QueueReport, partition: string) => void;
  };
}

/** Returns the queue of each stream, in partition order. `makes`: see QueuePartition. */
export function acceptingStreams(options: StreamsOptions, makes = true): readonly StreamQueue[] {
  const { uri, partitions, limits, durability, observer, clock, random } = options;
  const { enqueueTimeoutMs, bodyBytesMax: accepts } = limits;
  const parts = queuePartitions(uri, partitions, { clock, random, accepts, makes });
  const shared = sharedClients();
  return parts.map((part, at) => {
    const log = parts.length === 1 ? options.log : options.log.child({ partition: at });
    const about = { uri: part.uri, name: 'ingest-gateway', log, clock };
    const connections = Array.from(
      { length: durability.replicas === 0 ? 0 : CONNECTIONS },
      (_, n) => new RedisConnection({ ...about, log: log.child({ connection: `writing-${n}` }) }),
    );
    return new StreamQueue({
      ...{ clock, log, part, enqueueTimeoutMs },
      connection: new RedisConnection(about, shared),
      durability: { ...durability, connections },
      observer: { ...observer, onReport: (report) => observer?.onReport?.(report, String(at)) },
    });
  });
}

const LOOK_MS = 25;

/** Waits until every stream accepts events, or after `timeoutMs` at least one. Rejects with a StartFailure. */
export async function startQueue(
  uri: string,
  queues: readonly StreamQueue[],
  clock: Clock,
  timeoutMs: number,
): Promise<void> {
  let refusal: QueueRefusal | undefined;
  for (const queue of queues) queue.open((cause) => (refusal ??= cause));
  for (const deadline = clock.ms() + timeoutMs; ; await clock.sleep(LOOK_MS)) {
    const states = await Promise.all(queues.map((queue) => queue.probe()));
    if (states.every(({ available }) => available)) return;
    if (refusal !== undefined) failStart(uri, refusal);
    // A rewrite of the append-only file may take minutes. Meanwhile, the gateway listens but is not ready.
    if (queues.every((queue, at) => states[at]?.available === true || queue.awaitsRewrite)) return;
    if (clock.ms() <= deadline) continue;
    if (states.some(({ available }) => available)) return;
    const [why = ''] = states.map((state) => (state.available ? '' : state.reason));
    failStart(uri, new Error(`the queue takes no events (${why})`));
  }
}

/** Connects without writing anything, and returns a sentence about the queue. Rejects with a StartFailure. */
export async function inspectGatewayQueue(options: StreamsOptions, timeoutMs: number): Promise<string> {
  const { uri, partitions, clock, random } = options;
  const about = await inspectQueue({ uri, partitions, program: 'gateway' }, { clock, random });
  const queues = acceptingStreams(options, false);
  try {
    await startQueue(uri, queues, clock, timeoutMs);
    const awaits = queues.some((queue) => queue.awaitsRewrite);
    const bytes = Math.min(...queues.map(({ bodyBytesMax }) => bodyBytesMax));
    const limit = `, but no bodies over ${bytes} bytes (a limit of Redis; INGEST_BODY_BYTES_MAX is higher)`;
    const when = awaits ? ' once its append-only file has been rewritten' : '';
    return `${about}, takes events${when}${Number.isFinite(bytes) ? limit : ''}`;
  } finally {
    await Promise.all(queues.map((queue) => queue.close()));
  }
}
