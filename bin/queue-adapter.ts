// The accepting side of the queue that a URI names.
import { isDispatcher } from '../lib/gateway/config.ts';
import { byteConnection, type ConnectionOptions, type RedisConnection } from '../lib/redis/client.ts';
import type { Reply } from '../lib/redis/reply.ts';
import { StreamQueue, type StreamQueueOptions } from '../lib/redis/stream-queue.ts';

/** The port of a dispatcher when its URI names none. */
const DISPATCHER_PORT = '6380';

export interface OpenedQueue {
  readonly connection: RedisConnection<Reply>;
  readonly queue: StreamQueue;
}

/** A queue that is not connected yet: `connection.open()` begins. */
export function openQueue(
  options: ConnectionOptions & { readonly uri: string } & Omit<StreamQueueOptions, 'connection' | 'behind'>,
): OpenedQueue {
  const behind = isDispatcher(options.uri) ? 'dispatcher' : 'redis';
  const connection = byteConnection({ ...options, uri: serverUri(options.uri) });
  return { connection, queue: new StreamQueue({ ...options, connection, behind }) };
}

/** A dispatcher speaks as a Redis server does, over TLS where its scheme ends in s. */
export function serverUri(uri: string): string {
  if (!isDispatcher(uri)) return uri;
  const url = new URL(uri.replace(/^dispatcher(s?):/, 'redis$1:'));
  if (url.port === '') url.port = DISPATCHER_PORT;
  return url.href;
}
