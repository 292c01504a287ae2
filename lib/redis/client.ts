// One supervised connection to a Redis 7.0 or newer (or Valkey) server.
//
// States: connecting → ready → (lost) → connecting …; closed ends it. Commands are sent only while ready and fail at
// once otherwise: nothing is kept for later, because a later answer would be no answer for whoever waits (and the
// memory would have no bound). Reconnecting never stops, with pauses of 50 to 500 ms.
//
// Relies on: node-redis reconnects by itself, but waits for ever for the answers to its greeting when the server is
// frozen or the network drops packets. So a connection that does not get ready within CONNECT_TIMEOUT_MS, or that the
// owner calls dead (`restart`), is thrown away whole and a new one made.
import { createClient } from 'redis';
import type { Log } from '../process/log.ts';
import { ByteClient } from './byte-client.ts';
import type { Reply } from './reply.ts';

/** How long one attempt to connect and greet may take. */
export const CONNECT_TIMEOUT_MS = 2_000;
/** How long a stop waits for answers that nobody waits for any more: a frozen server must not hold it up. */
const CLOSE_TIMEOUT_MS = 500;
const PAUSE_FIRST_MS = 50;
const PAUSE_MAX_MS = 500;

/** An answer as values. */
export type RedisValue = string | number | null | readonly RedisValue[];

export interface ConnectionOptions {
  /** `redis://` or `rediss://`, with user, password and database as usual. */
  readonly uri: string;
  /** Shown by `CLIENT LIST`. */
  readonly name: string;
  readonly log: Log;
}

// The generic parameters of node-redis' client carry its whole command table; this is the part that is used here.
interface Client<Answer> {
  readonly isReady: boolean;
  on(event: string, listener: (cause?: unknown) => void): unknown;
  connect(): Promise<unknown>;
  sendCommand(command: readonly string[]): Promise<Answer>;
  close(): Promise<void>;
  destroy(): void;
}

/** A connection whose answers are values, by node-redis. */
export const valueConnection = (options: ConnectionOptions): RedisConnection<RedisValue> =>
  new RedisConnection(options, nodeRedisClient);

/** A connection whose answers are bytes, for the ways that events take: see byte-client.ts. */
export const byteConnection = (options: ConnectionOptions): RedisConnection<Reply> =>
  new RedisConnection(
    options,
    (uri, name) => new ByteClient({ uri, name, connectTimeoutMs: CONNECT_TIMEOUT_MS, pauseMs }),
  );

export class RedisConnection<Answer> {
  readonly #options: ConnectionOptions;
  readonly #newClient: (uri: string, name: string) => Client<Answer>;
  #client: Client<Answer> | undefined;
  #watchdog: NodeJS.Timeout | undefined;
  #closed = false;
  #wasReady = false;
  #lastError = 'not connected yet';

  /** Called each time the connection gets ready, and each time it is lost. */
  onReady: () => void = () => undefined;
  onLost: (reason: string) => void = () => undefined;

  constructor(options: ConnectionOptions, newClient: (uri: string, name: string) => Client<Answer>) {
    this.#options = options;
    this.#newClient = newClient;
  }

  get ready(): boolean {
    return this.#client?.isReady ?? false;
  }

  /** Why the connection is not ready, in words that hold no secret. */
  get lastError(): string {
    return this.#lastError;
  }

  /** Begins to connect, and keeps at it. */
  open(): void {
    if (this.#closed || this.#client !== undefined) return;
    const client = this.#create();
    this.#client = client;
    this.#armWatchdog();
    client.connect().catch((cause: unknown) => this.#failed(client, cause));
  }

  /**
   * Sends one command. Rejects at once while the connection is not ready; has no time-out of its own (the caller's
   * deadline decides, and `restart` ends what never comes).
   */
  send(command: readonly string[]): Promise<Answer> {
    const client = this.#client;
    if (client === undefined) return Promise.reject(new Error('the connection is closed'));
    return client.sendCommand(command);
  }

  /** Throws the connection away, with what is outstanding on it, and makes a new one. */
  restart(reason: string): void {
    const client = this.#client;
    if (client === undefined || this.#closed) return;
    this.#client = undefined;
    this.#lost(reason);
    destroyed(client);
    this.open();
  }

  /** Waits for outstanding answers, for CLOSE_TIMEOUT_MS at most, then closes. Idempotent. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#watchdog);
    const client = this.#client;
    this.#client = undefined;
    if (client === undefined) return;
    if (client.isReady) {
      const timer = setTimeout(() => destroyed(client), CLOSE_TIMEOUT_MS);
      await client.close().catch(() => undefined);
      clearTimeout(timer);
    }
    destroyed(client);
  }

  #create(): Client<Answer> {
    const client = this.#newClient(this.#options.uri, this.#options.name);
    client.on('ready', () => {
      if (client !== this.#client) return;
      clearTimeout(this.#watchdog);
      this.#wasReady = true;
      this.#options.log.info('connected to the queue');
      this.onReady();
    });
    client.on('error', (cause) => this.#failed(client, cause));
    return client;
  }

  #failed(client: Client<Answer>, cause: unknown): void {
    if (client !== this.#client || this.#closed) return;
    this.#lost(cause instanceof Error ? describe(cause) : 'unknown error');
    this.#armWatchdog();
  }

  #lost(reason: string): void {
    if (reason !== this.#lastError || this.#wasReady) {
      this.#options.log.warn({ reason }, 'no connection to the queue; trying again until there is one');
    }
    this.#lastError = reason;
    this.#wasReady = false;
    this.onLost(reason);
  }

  #armWatchdog(): void {
    clearTimeout(this.#watchdog);
    this.#watchdog = setTimeout(() => {
      if (!this.ready) this.restart('the server does not answer');
    }, CONNECT_TIMEOUT_MS + PAUSE_MAX_MS);
  }
}

function nodeRedisClient(url: string, name: string): Client<RedisValue> {
  return createClient({
    url,
    name,
    RESP: 2,
    disableOfflineQueue: true,
    maintNotifications: 'disabled',
    // Fact: a time-out here is an AbortSignal and a timer for each command. The callers keep one timer for all.
    commandOptions: { timeout: 0 },
    socket: { connectTimeout: CONNECT_TIMEOUT_MS, reconnectStrategy: pauseMs },
  });
}

/** Doubling pauses with jitter, so that many gateways do not come back in one step. */
function pauseMs(retries: number): number {
  const ceiling = Math.min(PAUSE_FIRST_MS * 2 ** retries, PAUSE_MAX_MS);
  return ceiling / 2 + Math.random() * (ceiling / 2);
}

function describe(cause: Error): string {
  const code = 'code' in cause ? String(cause.code) : undefined;
  return cause.message !== '' ? cause.message : (code ?? cause.name);
}

function destroyed(client: Client<unknown>): void {
  try {
    client.destroy();
  } catch {
    // Already closed: there is nothing left to let go of.
  }
}
