// The start of a consumer at its queue: a connection, and a place among the replicas.
import { REPLICA_LEASE_MS } from '../../ingest/queue.ts';
import type { Clock } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import { EXIT, StartFailure } from '../../process/program.ts';
import { queueAway, queueRefused } from '../stream/inspect-queue.ts';
import { QueueRefusal } from '../wire/errors.ts';
import type { readingQueue } from './open-reader.ts';

const QUEUE_START_MS = 5_000;
/** While its place is taken a replica asks again, for a little longer than a dead one is counted. */
const REGISTER_TIMEOUT_MS = REPLICA_LEASE_MS + 1_500;
const REGISTER_INTERVAL_MS = 250;

type Reader = Pick<ReturnType<typeof readingQueue>, 'open' | 'waiting' | 'lastError' | 'register' | 'registerLater'>;

/** Connects and takes a place among the replicas. Throws a StartFailure when either cannot be had in time. */
export async function joinReplicas(
  reader: Reader,
  config: { readonly queueUri: string; readonly replicasMax: number },
  clock: Clock,
  stopped: AbortSignal,
  log: Log,
): Promise<void> {
  const opened = await reader.open(QUEUE_START_MS).catch((cause: unknown) => {
    throw cause instanceof QueueRefusal ? queueRefused(config.queueUri, cause) : cause;
  });
  if (stopped.aborted) return;
  if (!opened && reader.waiting) {
    log.error(
      { reason: reader.lastError },
      'the queue is there and takes no commands; starting, and waiting until it does',
    );
    reader.registerLater(config.replicasMax);
    return;
  }
  if (!opened) {
    throw queueAway(config.queueUri, reader.lastError);
  }
  const place = await placeAmongReplicas(reader, config.replicasMax, clock, stopped, log);
  if (place === 'taken') {
    throw new StartFailure(
      EXIT.replicas,
      `INGEST_CONSUMER_REPLICAS_MAX=${config.replicasMax}: as many replicas run already; stop one, ` +
        'or raise this key for every replica',
    );
  }
  if (place === 'unknown') reader.registerLater(config.replicasMax);
}

/**
 * Asks for a place among the replicas; the place of one that has just died is free after its lease. `unknown`: the
 * queue refused to say, or a stop was asked for.
 */
async function placeAmongReplicas(
  reader: Reader,
  replicasMax: number,
  clock: Clock,
  signal: AbortSignal,
  log: Log,
): Promise<'mine' | 'taken' | 'unknown'> {
  const deadline = clock.ms() + REGISTER_TIMEOUT_MS;
  let place: 'taken' | 'unknown' = 'unknown';
  while (clock.ms() < deadline && !signal.aborted) {
    try {
      if (await reader.register(replicasMax)) return 'mine';
      place = 'taken';
    } catch (cause) {
      place = 'unknown';
      log.warn({ err: cause }, 'the queue does not take commands');
    }
    await clock.sleep(REGISTER_INTERVAL_MS, signal);
  }
  return signal.aborted ? 'unknown' : place;
}
