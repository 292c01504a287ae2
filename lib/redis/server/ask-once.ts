// Queries servers that need not be the master, each on its own short-lived connection.
import type { ClockAndRandom } from '../../process/clock.ts';
import { withTimeout } from '../wire/deadline.ts';
import { causeOf } from '../wire/errors.ts';
import { RedisClient } from '../wire/redis-client.ts';
import type { Server } from '../wire/values.ts';

/** Covers connecting and all replies. A frozen or unreachable server delays the caller this long. */
const TIMEOUT_MS = 1_000;

export async function askOnce<T>(
  system: ClockAndRandom,
  uri: string,
  ask: (server: Server) => Promise<T>,
  timeoutMs = TIMEOUT_MS,
): Promise<T> {
  const client = new RedisClient(uri, 'ingest-lookup');
  const refused = (cause: unknown): never => {
    throw causeOf(cause);
  };
  const { promise: ready, resolve: onReady } = Promise.withResolvers<void>();
  const { promise: lost, reject } = Promise.withResolvers<never>();
  const user = { onReady, onLost: (cause: unknown) => reject(causeOf(cause)) };
  const answer = ready.then(() => ask({ send: (command) => client.send(command).catch(refused) }));
  client.join(user);
  // The race uses only the first result, so a later rejection must be handled here.
  for (const one of [lost, answer]) one.catch(() => undefined);
  try {
    return await withTimeout(system.clock, Promise.race([lost, answer]), timeoutMs);
  } finally {
    client.leave(user);
  }
}

/**
 * Asks the servers in turn, starting with number `first`. Returns the first result or rejects with the last failure.
 */
export async function askAny<T>(
  system: ClockAndRandom,
  uris: readonly string[],
  first: number,
  ask: (server: Server, at: number) => Promise<T>,
): Promise<T> {
  let last: unknown = new Error('there is no server to ask');
  for (let tried = 0; tried < uris.length; tried += 1) {
    const at = (first + tried) % uris.length;
    try {
      return await askOnce(system, uris[at] ?? '', (server) => ask(server, at));
    } catch (cause) {
      last = cause;
    }
  }
  throw last;
}

/** Returns a function whose calls share a result while it is outstanding, because partitions often ask together. */
export function shared<T>(ask: () => Promise<T>): () => Promise<T> {
  let asking: Promise<T> | undefined;
  return () => (asking ??= ask().finally(() => (asking = undefined)));
}
