// Opens the reading side of each stream that a queue URI names, and registers a consumer on them.
import { REPLICA_LEASE_MS, type QueueReport } from '../../ingest/queue.ts';
import type { Clock, ClockAndRandom } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import { EXIT, StartFailure } from '../../process/program.ts';
import { failStart } from '../stream/inspect-queue.ts';
import { queuePartitions } from '../stream/queue-partitions.ts';
import { queueIsAway } from '../wire/errors.ts';
import { memberName, StreamReader } from './stream-reader.ts';

const QUEUE_START_MS = 5_000;
/** A replica waits for a place a little longer than a dead replica keeps one. */
const REGISTER_TIMEOUT_MS = REPLICA_LEASE_MS + 1_500;
const REGISTER_INTERVAL_MS = 250;

interface ReadersOptions extends ClockAndRandom {
  readonly uri: string;
  readonly partitions: number;
  readonly log: Log;
  readonly onReport: (report: QueueReport, partition: string) => void;
}

/** Returns the readers in partition order. They all have the same name, so operators see one replica. */
export function streamReaders({ uri, partitions, log, onReport, ...system }: ReadersOptions): readonly StreamReader[] {
  const parts = queuePartitions(uri, partitions, system);
  const name = memberName(system.random);
  return parts.map((part, at) => {
    const own = parts.length === 1 ? log : log.child({ partition: at });
    return new StreamReader({ ...system, part, name, log: own, onReport: (report) => onReport(report, String(at)) });
  });
}

/**
 * Connects and registers on every reachable stream; the others follow later. Throws a StartFailure if no stream is
 * reachable, or if one already has the maximum of replicas.
 */
export async function joinReplicas(
  readers: readonly StreamReader[],
  config: { readonly queueUri: string; readonly replicasMax: number },
  clock: Clock,
  stopped: AbortSignal,
  log: Log,
): Promise<void> {
  const { queueUri, replicasMax } = config;
  const opening = Promise.all(readers.map((reader) => reader.open(QUEUE_START_MS)));
  const opened = await opening.catch((cause: unknown) => failStart(queueUri, cause));
  if (stopped.aborted) return;
  const reachable = readers.filter((_, at) => opened[at]);
  if (reachable.length === 0) {
    const waiting = readers.find((reader) => reader.waiting);
    if (waiting === undefined) failStart(queueUri, new Error(queueIsAway(readers[0]?.lastError ?? '')));
    log.error({ reason: waiting.lastError }, 'the queue is reachable but accepts no commands; starting and waiting');
  }
  const deadline = clock.ms() + REGISTER_TIMEOUT_MS;
  // Streams are registered in order, so that one of two consumers that start together gets a place on every stream.
  for (const reader of reachable)
    for (; !stopped.aborted; await clock.sleep(REGISTER_INTERVAL_MS, stopped)) {
      const joined = await reader.register(replicasMax).catch((cause: unknown) => {
        log.warn({ err: cause }, 'the queue accepts no commands');
        return undefined;
      });
      const isLate = clock.ms() >= deadline;
      if (joined === false && isLate && !stopped.aborted)
        throw new StartFailure(
          EXIT.replicas,
          `INGEST_CONSUMER_REPLICAS_MAX=${replicasMax}: as many replicas run already; stop one, ` +
            'or raise this key for every replica',
        );
      if (joined === true || isLate) break;
    }
}
