// The start of a dispatcher's queues: what it waits for, and what ends it.
import type { DispatcherConfig } from '../lib/dispatcher/config.ts';
import type { Sessions } from '../lib/dispatcher/sessions.ts';
import { maskedUri } from '../lib/process/masked-uri.ts';
import { EXIT, StartFailure } from '../lib/process/program.ts';
import { PartitionsDiffer, type QueueRefusal } from '../lib/redis/wire/errors.ts';
import { NOT_ASKED } from '../lib/redis/accept/queue-probe.ts';
import { SYSTEM } from './system.ts';
import { queueRefused } from './check-connect.ts';

const QUEUE_START_MS = 5_000;
const LOOK_MS = 25;
export const QUEUE_KEYS = ['INGEST_DISPATCH_QUEUE_A_URI', 'INGEST_DISPATCH_QUEUE_B_URI'] as const;

/** Why each queue is not to be worked with, as it first said. */
export type Refusals = [even: QueueRefusal | undefined, odd: QueueRefusal | undefined];

/**
 * Waits until one queue takes events, and the other one has said whether it does. Throws a StartFailure when neither
 * does in time, or when one has another number of partitions: it would shed for ever.
 */
export async function startQueues(
  config: DispatcherConfig,
  refusals: Readonly<Refusals>,
  sessions: Sessions,
): Promise<void> {
  const { lanes } = sessions.anonymous.queue;
  const haveSpoken = (): boolean =>
    lanes.every(({ queue }) => queue.states().every((state) => state.available || state.reason !== NOT_ASKED));
  const deadline = SYSTEM.clock.ms() + QUEUE_START_MS;
  for (;;) {
    const overdue = SYSTEM.clock.ms() > deadline;
    for (const at of [0, 1] as const) {
      const refusal = refusals[at];
      if (refusal instanceof PartitionsDiffer) throw queueRefused(config.queueUris[at], refusal, QUEUE_KEYS[at]);
    }
    if (sessions.trouble === undefined && (overdue || haveSpoken())) return;
    if (overdue) {
      const keys = QUEUE_KEYS.map((key, at) => `${key}=${maskedUri(config.queueUris[at as 0 | 1])}`);
      throw new StartFailure(
        EXIT.queue,
        `${keys.join(', ')}: neither queue takes events (${sessions.trouble}); ` +
          'check that the servers run, are reachable and can be written to',
      );
    }
    await SYSTEM.clock.sleep(LOOK_MS);
  }
}
