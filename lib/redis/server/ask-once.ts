// Questions about where a queue's master is, to servers that need not be it: each on a connection of its own, which is
// closed after the answer.
import type { ClockAndRandom } from '../../process/clock.ts';
import type { Server } from '../wire/script.ts';
import { ByteClient } from '../wire/byte-client.ts';
import { withTimeout } from '../wire/deadline.ts';

/** For the connection and the answers together. A server that is frozen, or behind a cut network, costs as long. */
const TIMEOUT_MS = 1_000;

/** Connects, gives `ask` the server, and its answer. Rejects when the server is not there, or not in time. */
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
  // Of answer and error only the first one counts.
  for (const one of [lost, answer]) one.catch(() => undefined);
  try {
    return await withTimeout(system.clock, Promise.race([lost, answer]), timeoutMs);
  } finally {
    client.destroy();
  }
}

/**
 * The first answer that one of several servers gives, asked one after the other from number `first` on; `ask` receives
 * the number. Rejects with the last one's reason.
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
