// Queries servers that need not be the master, each on its own short-lived connection.
import type { ClockAndRandom } from '../../process/clock.ts';
import { withTimeout } from '../wire/deadline.ts';
import { causeOf } from '../wire/errors.ts';
import { RedisClient } from '../wire/redis-client.ts';
import type { Server } from '../wire/values.ts';

/** Covers connecting and all replies. A frozen or unreachable server delays the caller this long. */
const TIMEOUT_MS = 1_000;

export async function askOnce<T>(
  { clock }: Pick<ClockAndRandom, 'clock'>,
  uri: string,
  ask: (server: Server) => Promise<T>,
  timeoutMs = TIMEOUT_MS,
): Promise<T> {
  const client = new RedisClient(uri, 'ingest-lookup');
  const refused = (cause: unknown): never => {
    throw causeOf(cause);
  };
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const user = {
    onReady: () => void ask({ send: (command) => client.send(command).catch(refused) }).then(resolve, reject),
    onLost: (cause: unknown) => reject(causeOf(cause)),
  };
  client.join(user);
  try {
    return await withTimeout(clock, promise, timeoutMs);
  } finally {
    client.leave(user);
  }
}
