// What a RedisConnection asks of the client below it, and how it ends one: ByteClient, or node-redis in node-redis.ts.
import type { Clock } from '../../process/clock.ts';
import type { RedisValue } from '../wire/reply.ts';
import type { Argument } from '../wire/script.ts';

/** How long a stop waits for the last answers: a frozen server must not hold it up. */
const CLOSE_TIMEOUT_MS = 500;

// The generic parameters of node-redis' client carry its whole command table; this is the part that is used here.
export interface Client<Answer> {
  readonly isReady: boolean;
  readonly bytesReceived?: number;
  /** `ready`, `error` with the cause, and `refused` with each RedisError that a command met. */
  on(event: string, listener: (cause?: unknown) => void): unknown;
  connect(): Promise<unknown>;
  sendCommand(command: readonly Argument[]): Promise<Answer>;
  close(): Promise<void>;
  destroy(): void;
}

/** How to make a client, and how to read its answers as values. */
export interface ClientDialect<Answer> {
  readonly open: (uri: string, name: string) => Client<Answer>;
  readonly value: (answer: Answer) => RedisValue;
}

/** Waits for outstanding answers, for CLOSE_TIMEOUT_MS at most, then closes. */
export async function closeClient(client: Client<unknown>, clock: Clock): Promise<void> {
  if (client.isReady) {
    const timer = clock.after(CLOSE_TIMEOUT_MS, () => destroyClient(client));
    await client.close().catch(() => undefined);
    timer.close();
  }
  destroyClient(client);
}

export function destroyClient(client: Client<unknown>): void {
  try {
    client.destroy();
  } catch {
    // Already closed: there is nothing left to let go of.
  }
}
