// A dispatcher's queues: how they are opened, what a start waits for, and what ends it.
import type { DispatcherConfig } from '../lib/dispatcher/config.ts';
import { Dispatcher, QUEUES, Traffic, type QueueName } from '../lib/dispatcher/dispatcher.ts';
import type { DispatcherMetrics } from '../lib/dispatcher/metrics.ts';
import { Sessions, type Credentials } from '../lib/dispatcher/sessions.ts';
import { SendingSpans } from '../lib/dispatcher/sending-spans.ts';
import type { Log } from '../lib/process/log.ts';
import { maskedUri } from '../lib/process/masked-uri.ts';
import { EXIT, StartFailure } from '../lib/process/program.ts';
import { withCredentials } from '../lib/process/queue-uri.ts';
import { SETTINGS } from '../lib/process/settings.ts';
import { acceptingQueue } from '../lib/redis/accept/open-queue.ts';
import { queueRefused } from '../lib/redis/stream/inspect-queue.ts';
import { PartitionsDiffer, type QueueRefusal } from '../lib/redis/wire/errors.ts';
import type { Tracing } from '../lib/telemetry/tracing.ts';
import { SYSTEM } from './system.ts';

const NAME = 'ingest-dispatcher';
export const QUEUE_KEYS = ['INGEST_DISPATCH_QUEUE_A_URI', 'INGEST_DISPATCH_QUEUE_B_URI'] as const;

/** Why each queue is not to be worked with, as it first said. */
export type Refusals = [even: QueueRefusal | undefined, odd: QueueRefusal | undefined];

/**
 * Waits for the queues. Throws a StartFailure when neither takes events in time, or when one has another number of
 * partitions: it would shed for ever.
 */
export async function startQueues(
  { queueUris }: DispatcherConfig,
  refusals: Readonly<Refusals>,
  sessions: Sessions,
): Promise<void> {
  const assertUsable = (): void => {
    for (const at of [0, 1] as const) {
      const refusal = refusals[at];
      if (refusal instanceof PartitionsDiffer) throw queueRefused(queueUris[at], refusal, QUEUE_KEYS[at]);
    }
  };
  if (await sessions.start(assertUsable)) return;
  const keys = QUEUE_KEYS.map((key, at) => `${key}=${maskedUri(queueUris[at as 0 | 1])}`);
  throw new StartFailure(
    EXIT.queue,
    `${keys.join(', ')}: neither queue takes events (${sessions.trouble}); ` +
      'check that the servers run, are reachable and can be written to',
  );
}

/** A dispatcher over both queues for each user; what is in flight is bounded over all of them. */
export function sessionsOf(
  config: DispatcherConfig,
  refusals: Refusals,
  metrics: DispatcherMetrics,
  tracing: Tracing | undefined,
  log: Log,
): Sessions {
  const traffic = QUEUES.map((name) => new Traffic(metrics.outcomes[name]));
  const lane = (at: 0 | 1, credentials: Credentials | undefined) => {
    const name: QueueName = QUEUES[at];
    const uri = config.queueUris[at];
    const { parts, queue } = acceptingQueue({
      ...SYSTEM,
      uri: credentials === undefined ? uri : withCredentials(uri, credentials.user, credentials.password),
      partitions: config.queuePartitions,
      replicas: config.queueReplicas,
      name: NAME,
      log: log.child({ queue: name }),
      enqueueTimeoutMs: config.shedMs,
      durability: config.queueDurability,
      // Gateways before it may be set to accept as much.
      bodyBytesMax: SETTINGS.INGEST_BODY_BYTES_MAX.max,
      onLook: (look, partition) =>
        metrics.queues.looked(config.queuePartitions > 1 ? `${name}/${partition}` : name, look),
    });
    for (const { connection } of parts) {
      connection.tell({ onRefused: (cause) => (refusals[at] ??= cause) });
      connection.open();
    }
    const spans = tracing && new SendingSpans(tracing, SYSTEM.clock, name);
    return { name, queue, traffic: traffic[at] as Traffic, spans };
  };
  const open = (credentials: Credentials | undefined) => new Dispatcher([lane(0, credentials), lane(1, credentials)]);
  const sessions = new Sessions(open, SYSTEM.clock);
  metrics.queueUp.readEach(() =>
    QUEUES.map((queue) => ({ labels: { queue }, value: sessions.takesEvents(queue) ? 1 : 0 })),
  );
  metrics.eventsInFlight.read(() => traffic.reduce((sum, { events }) => sum + events, 0));
  return sessions;
}
