// The reading side of each stream of the queue that a URI names, and how a consumer starts there: connections, and a
// place among the consumers of each stream.
import { REPLICA_LEASE_MS, type QueueReport } from '../../ingest/queue.ts';
import type { Clock, ClockAndRandom } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import { EXIT, StartFailure } from '../../process/program.ts';
import { queueAway, queueRefused } from '../stream/inspect-queue.ts';
import { queuePartitions } from '../stream/queue-partitions.ts';
import { QueueRefusal } from '../wire/errors.ts';
import { memberName } from './membership.ts';
import { StreamReader } from './stream-reader.ts';

const QUEUE_START_MS = 5_000;
/** While its place is taken a replica asks again, for a little longer than a dead one is counted. */
const REGISTER_TIMEOUT_MS = REPLICA_LEASE_MS + 1_500;
const REGISTER_INTERVAL_MS = 250;

interface ReadersOptions extends ClockAndRandom {
  readonly uri: string;
  /** Of a queue on a Redis Cluster. */
  readonly partitions: number;
  readonly log: Log;
  /** Called with each reading of a stream, and its partition. */
  readonly onReport: (report: QueueReport, partition: string) => void;
}

/** By partition. All have one name, so that operators see one replica. */
export function streamReaders({ uri, partitions, log, onReport, ...system }: ReadersOptions): readonly StreamReader[] {
  const parts = queuePartitions(uri, partitions, system);
  const name = memberName(system.random);
  return parts.map((part, at) => {
    const own = parts.length === 1 ? log : log.child({ partition: at });
    const reported = (report: QueueReport): void => onReport(report, String(at));
    return new StreamReader({ ...system, part, name, log: own, onReport: reported });
  });
}

/**
 * Connects to every stream that is there, and takes a place among its consumers. Throws a StartFailure if none is
 * there, or if one has as many consumers as it may. A consumer takes its place on the other streams later.
 */
export async function joinReplicas(
  readers: readonly StreamReader[],
  config: { readonly queueUri: string; readonly replicasMax: number },
  clock: Clock,
  stopped: AbortSignal,
  log: Log,
): Promise<void> {
  const { queueUri, replicasMax } = config;
  const opened = await Promise.all(readers.map((reader) => reader.open(QUEUE_START_MS))).catch((cause: unknown) => {
    throw cause instanceof QueueRefusal ? queueRefused(queueUri, cause) : cause;
  });
  if (stopped.aborted) return;
  const reachable = readers.filter((_, at) => opened[at]);
  if (reachable.length === 0) {
    const waiting = readers.find((reader) => reader.waiting);
    if (waiting === undefined) throw queueAway(queueUri, readers[0]?.lastError ?? '');
    const reason = waiting.lastError;
    log.error({ reason }, 'the queue is there and takes no commands; starting, and waiting until it does');
  }
  const deadline = clock.ms() + REGISTER_TIMEOUT_MS;
  // One after the other, so that of two consumers that start at the same time one has the places on all streams.
  for (const reader of reachable) {
    if ((await placeOn(reader, replicasMax, deadline, clock, stopped, log)) !== 'taken') continue;
    throw new StartFailure(
      EXIT.replicas,
      `INGEST_CONSUMER_REPLICAS_MAX=${replicasMax}: as many replicas run already; stop one, ` +
        'or raise this key for every replica',
    );
  }
}

/** The place of a replica that has just died is free after its lease. `unknown`: the queue refused, or a stop. */
async function placeOn(
  reader: StreamReader,
  replicasMax: number,
  deadline: number,
  clock: Clock,
  signal: AbortSignal,
  log: Log,
): Promise<'mine' | 'taken' | 'unknown'> {
  let place: 'taken' | 'unknown';
  do {
    try {
      if (await reader.register(replicasMax)) return 'mine';
      place = 'taken';
    } catch (cause) {
      place = 'unknown';
      log.warn({ err: cause }, 'the queue does not take commands');
    }
    await clock.sleep(REGISTER_INTERVAL_MS, signal);
  } while (clock.ms() < deadline && !signal.aborted);
  return signal.aborted ? 'unknown' : place;
}
