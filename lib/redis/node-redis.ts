// The client of node-redis, as far as this folder uses it: connections whose answers are values, reconnecting by
// themselves.
//
// What a server answers as an error is a RedisError here; anything else that goes wrong stays what it was.
import { createClient, ErrorReply } from 'redis';
import { pauseMs } from '../process/backoff.ts';
import { RedisError } from './errors.ts';
import type { RedisValue } from './reply.ts';
import type { Argument } from './script.ts';

/** How long one attempt to connect and greet may take. */
export const CONNECT_TIMEOUT_MS = 2_000;
const PAUSE_FIRST_MS = 50;
export const PAUSE_MAX_MS = 500;

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

/** A client of node-redis that is not connected yet; it reconnects by itself. */
export function nodeRedisClient(url: string, name: string): Client<RedisValue> {
  const client = createClient({
    url,
    name,
    RESP: 2,
    disableOfflineQueue: true,
    maintNotifications: 'disabled',
    disableClientInfo: true,
    // Fact: a time-out here is an AbortSignal and a timer for each command. The callers keep one timer for all.
    commandOptions: { timeout: 0 },
    socket: { connectTimeout: CONNECT_TIMEOUT_MS, reconnectStrategy: reconnectPauseMs },
  });
  return {
    get isReady() {
      return client.isReady;
    },
    on: (event, listener) => client.on(event, (cause?: unknown) => listener(ownError(cause))),
    connect: () =>
      client.connect().catch((cause: unknown) => {
        throw ownError(cause);
      }),
    sendCommand: (command) =>
      client.sendCommand<RedisValue>(command).catch((cause: unknown) => {
        if (cause instanceof ErrorReply) client.emit('refused', cause);
        throw ownError(cause);
      }),
    close: () => client.close(),
    destroy: () => client.destroy(),
  };
}

/** What the server answered with, also to the greeting, as an error of this folder; anything else as it is. */
const ownError = (cause: unknown): unknown => (cause instanceof ErrorReply ? new RedisError(cause.message) : cause);

/** `retries` counts from 0. */
export const reconnectPauseMs = (retries: number): number => pauseMs(retries + 1, PAUSE_FIRST_MS, PAUSE_MAX_MS);
