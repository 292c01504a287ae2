// The accepting side of the queue that a URI names, be it a server or a dispatcher.
import { isDispatcher } from '../lib/process/queue-uri.ts';
import type { Queue } from '../lib/ingest/queue.ts';
import { type ConnectionOptions, type RedisConnection, byteConnection } from '../lib/redis/server/client.ts';
import type { QueueRefusal } from '../lib/redis/wire/errors.ts';
import { PartitionedQueue } from '../lib/redis/accept/partitioned-queue.ts';
import type { Reply } from '../lib/redis/wire/reply.ts';
import { StreamQueue, type StreamQueueOptions } from '../lib/redis/accept/stream-queue.ts';
import { SYSTEM } from './system.ts';

/** The port of a dispatcher when its URI names none. */
const DISPATCHER_PORT = '6380';

type OpenOptions = Omit<ConnectionOptions, 'uri'> &
  Omit<StreamQueueOptions, 'connection' | 'behind' | 'onLook'> & { readonly uri: string };

export interface OpenedQueue {
  readonly queue: Queue;
  /** Each connection, with the part of the queue that is behind it. */
  readonly parts: readonly { readonly connection: RedisConnection<Reply>; readonly queue: StreamQueue }[];
}

/**
 * A queue that is not connected yet: `connection.open()` of each part begins.
 *
 * Fact: a dispatcher answers the calls of a connection in their order, so that one with an event of a frozen queue
 * holds up those behind it. Choice: a connection for each of its two queues. The hash decides which one, here as there;
 * were it another one here, only the waiting would change.
 */
export function openQueue(options: OpenOptions): OpenedQueue {
  const behind = isDispatcher(options.uri) ? 'dispatcher' : 'redis';
  const uri = serverUri(options.uri);
  const parts = Array.from({ length: behind === 'dispatcher' ? 2 : 1 }, (_, lane) => {
    const log = behind === 'dispatcher' ? options.log.child({ connection: lane }) : options.log;
    const connection = byteConnection({ ...options, log, uri });
    return { connection, queue: new StreamQueue({ ...options, connection, behind }) };
  });
  const queues = parts.map(({ queue }) => queue);
  const [only] = queues;
  return { parts, queue: queues.length === 1 && only !== undefined ? only : new PartitionedQueue(queues) };
}

const LOOK_MS = 25;

/**
 * Connects, and asks until every part would take an event. Gives why not, where none does in time or one is refused.
 */
export async function startQueue(
  { parts }: Pick<OpenedQueue, 'parts'>,
  timeoutMs: number,
): Promise<QueueRefusal | string | undefined> {
  let refusal: QueueRefusal | undefined;
  for (const { connection } of parts) {
    connection.tell({ onRefused: (cause) => (refusal ??= cause) });
    connection.open();
  }
  const deadline = SYSTEM.clock.ms() + timeoutMs;
  for (;;) {
    const states = await Promise.all(
      parts.map(async ({ connection, queue }) =>
        connection.ready ? await queue.probe() : { available: false as const, reason: connection.lastError },
      ),
    );
    if (states.every(({ available }) => available)) return undefined;
    if (refusal !== undefined) return refusal;
    if (SYSTEM.clock.ms() > deadline) {
      const reason = states.find((state) => !state.available)?.reason ?? '';
      return states.some(({ available }) => available) ? undefined : reason;
    }
    await SYSTEM.clock.sleep(LOOK_MS);
  }
}

/** A dispatcher speaks as a Redis server does, over TLS where its scheme ends in s. */
export function serverUri(uri: string): string {
  if (!isDispatcher(uri)) return uri;
  const url = new URL(uri.replace(/^dispatcher(s?):/, 'redis$1:'));
  if (url.port === '') url.port = DISPATCHER_PORT;
  return url.href;
}
