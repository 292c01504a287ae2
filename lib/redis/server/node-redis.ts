// The client of node-redis, as far as this folder uses it: connections whose answers are values, reconnecting by
// themselves.
//
// Fact: loading the package takes 0.2 s of CPU time, a third of a gateway's start. Choice: nothing but this file
// imports it, so a program with byte connections alone does not load it.
//
// What a server answers as an error is a RedisError here; anything else that goes wrong stays what it was.
import { createClient, ErrorReply } from 'redis';
import type { Random } from '../../process/clock.ts';
import { type Client, type ConnectionOptions, RedisConnection } from './client.ts';
import { RedisError } from '../wire/errors.ts';
import { CONNECT_TIMEOUT_MS, reconnectPauseMs } from '../wire/deadline.ts';
import type { RedisValue } from '../wire/reply.ts';

/** A connection whose answers are values; over a client of its own, or one that `open` makes. */
export const valueConnection = (
  options: ConnectionOptions,
  open = (uri: string, name: string): Client<RedisValue> => nodeRedisClient(uri, name, options.random),
): RedisConnection<RedisValue> => new RedisConnection(options, { open, value: (answer) => answer });

// Fact: createClient makes a class with every command of Redis and its modules, in 48 ms of CPU time, unless the
// options are those of the call before. Choice: it is called once, and each client is a duplicate with an address of
// its own, in 0.1 ms. Effect: a consumer behind Sentinel, which asks three sentinels twice a second, takes 2 % of a
// core when nothing comes, and took 37 %.
const prototype = createClient({
  RESP: 2,
  disableOfflineQueue: true,
  maintNotifications: 'disabled',
  disableClientInfo: true,
});

/** A client of node-redis that is not connected yet; it reconnects by itself. */
export function nodeRedisClient(url: string, name: string, random: Random): Client<RedisValue> {
  const client = prototype.duplicate({
    url,
    name,
    // Fact: a time-out here is an AbortSignal and a timer for each command. The callers keep one timer for all.
    commandOptions: { timeout: 0 },
    // An object of its own: node-redis puts the address of `url` into it.
    socket: {
      connectTimeout: CONNECT_TIMEOUT_MS,
      reconnectStrategy: (retries) => reconnectPauseMs(retries, random),
    },
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
