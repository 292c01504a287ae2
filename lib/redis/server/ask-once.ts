// Questions to servers that need not be the master, each on its own short-lived connection.
import type { ClockAndRandom } from '../../process/clock.ts';
import type { Server } from '../wire/script.ts';
import { ByteClient } from '../wire/byte-client.ts';
import { withTimeout } from '../wire/deadline.ts';

/** For the connection and the replies together. A frozen or unreachable server costs as long. */
const TIMEOUT_MS = 1_000;

/** Connects and runs `ask`. Rejects if the server is unavailable or does not reply in time. */
export async function askOnce<T>(
  system: ClockAndRandom,
  uri: string,
  ask: (server: Server) => Promise<T>,
  timeoutMs = TIMEOUT_MS,
): Promise<T> {
  const client = new ByteClient({ ...system, uri, name: 'ingest-lookup' });
  const lost = new Promise<never>((_, reject) => client.on('error', reject));
  const ready = new Promise((resolve) => client.on('ready', resolve));
  const server: Server = { send: (command) => client.sendCommand(command).then((reply) => reply.value()) };
  const answer = ready.then(() => ask(server));
  void client.connect();
  // Only the first of the two results is used.
  for (const one of [lost, answer]) one.catch(() => undefined);
  try {
    return await withTimeout(system.clock, Promise.race([lost, answer]), timeoutMs);
  } finally {
    client.destroy();
  }
}

/**
 * Asks several servers in turn, from number `first` on, and returns the first result. Rejects with the last failure.
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
