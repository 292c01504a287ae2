// One supervised connection to the master of a queue (Redis 7.0 or newer, or Valkey).
//
// Commands are sent only in state `ready` and fail immediately otherwise. They are not queued, because their senders
// would have given up before the reply, and such a queue would be unbounded.
//
// Invariant: a connection is ready only after its server has reported that it is a master and `inspect` has passed.
// The client is replaced if the connection breaks, and at most once per REOPEN_INTERVAL_MS if the inspection fails, if
// a command receives a code in NOT_MASTER, or if the owner calls `restart`. A MasterLookup is asked again each time.
import assert from 'node:assert/strict';
import type { Clock, Timer } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import { messageOf } from '../../process/message-of.ts';
import { withTimeout } from '../wire/deadline.ts';
import {
  causeOf,
  hasCode,
  isExhausted,
  isForbidden,
  QueueRefusal,
  type RedisError,
  isPasswordRefused,
} from '../wire/errors.ts';
import { type Client, type ClientUser, RedisClient } from '../wire/redis-client.ts';
import type { Command, RedisBytes, RedisValue, Sender, Server } from '../wire/values.ts';
import { assertMaster, isNotMaster } from './server-info.ts';

const REOPEN_INTERVAL_MS = 1_000;
/** Covers connecting, the handshake and the inspection. */
const INSPECT_TIMEOUT_MS = 2_500;
/** The interval if connections break or cannot be established, because a server that restarts is back soon. */
const BROKEN_INTERVAL_MS = 500;
/** Errors of a master that accepts no writes for now. */
const REFUSES_WRITES = ['NOREPLICAS', 'MISCONF', 'OOM', 'BUSY'];

export interface MasterLookup {
  /** Returns the current master's URI. Called before each connection; `cause` is the reply that ended the last one. */
  readonly find: (cause: RedisError | undefined) => Promise<string>;
  /** The interval between lookups. `undefined` if a replaced master reports the change itself. */
  readonly watchMs?: number;
}

export interface ConnectionOptions {
  readonly clock: Clock;
  readonly uri: string | MasterLookup;
  readonly name: string;
  readonly log: Log;
}

export interface ConnectionListener {
  /** Rejects if this program must not use the new connection's server. The connection is then closed. */
  readonly inspect?: (server: Server, uri: string) => Promise<void>;
  readonly onReady?: () => void;
  readonly onLost?: (reason: string) => void;
  /** Called each time an inspection fails for a reason that waiting does not fix. The connection keeps trying. */
  readonly onRefused?: (refusal: QueueRefusal) => void;
}

/** `paused` means that there is no client and the next attempt is due later. */
type State = 'new' | 'looking up' | 'connecting' | 'inspecting' | 'ready' | 'paused' | 'closed';

const HAS_CLIENT: ReadonlySet<State> = new Set(['connecting', 'inspecting', 'ready']);

export class RedisConnection {
  readonly #options: ConnectionOptions;
  readonly #make: (uri: string, name: string) => Client;
  #state: State = 'new';
  #client: Client | undefined;
  #user: ClientUser | undefined;
  #timer: Timer | undefined;
  #watch: Timer | undefined;
  #openedMs = Number.NEGATIVE_INFINITY;
  /** The reason why the connection is not ready. It contains no secrets. */
  lastError = 'not connected yet';
  /** True if the server replies but accepts no writes, because it is a replica, loading or full. */
  waiting = false;
  #server = '';
  #readyServer: string | undefined;
  /** The error reply that made the last client unusable, for the next lookup. */
  #lastRefusal: RedisError | undefined;
  #listener: ConnectionListener = {};
  /** Handles the rejection of a command that the current client sent. */
  #refused: ((cause: unknown) => never) | undefined;

  constructor(options: ConnectionOptions, make = (uri: string, name: string): Client => new RedisClient(uri, name)) {
    this.#options = options;
    this.#make = make;
  }

  /** Adds or replaces callbacks. An `inspect` must be set before `open`. */
  tell(listener: ConnectionListener): void {
    this.#listener = { ...this.#listener, ...listener };
  }

  readonly bytes: Sender<RedisBytes> = {
    send: (command) => this.#usable?.sendForBytes(command).catch(this.#refused) ?? this.#offline(),
  };

  get ready(): boolean {
    return this.#state === 'ready';
  }

  /** While this number grows, a reply to `bytes` is still arriving. */
  get bytesReceived(): number {
    return this.#client?.bytesReceived ?? 0;
  }

  open(): void {
    if (this.#state !== 'new' && this.#state !== 'paused') return;
    const { uri, clock } = this.#options;
    this.#openedMs = clock.ms();
    if (typeof uri === 'string') this.#connect(uri);
    else void this.#lookUp(uri);
  }

  /** Connects, and returns true if the connection is ready within `timeoutMs`. Replaces `onReady` and `onRefused`. */
  async opened(timeoutMs: number): Promise<boolean> {
    if (this.ready) return true;
    const ready = new Promise<void>((resolve, reject) => this.tell({ onReady: resolve, onRefused: reject }));
    this.open();
    try {
      await withTimeout(this.#options.clock, ready, timeoutMs);
      return true;
    } catch (cause) {
      if (cause instanceof QueueRefusal) throw cause;
      return false;
    }
  }

  /** Sends one command, or rejects immediately if the connection is not ready. Sets no time limit. */
  send(command: Command): Promise<RedisValue> {
    return this.#usable?.send(command).catch(this.#refused) ?? this.#offline();
  }

  get #usable(): Client | undefined {
    return this.ready ? this.#client : undefined;
  }

  #offline(): Promise<never> {
    return Promise.reject(new Error(`not connected to the queue (${this.lastError})`));
  }

  /** Closes, and rejects outstanding commands. Idempotent. */
  close(): void {
    if (this.#state === 'closed') return;
    const leave = this.#detach();
    this.#become('closed');
    leave();
  }

  #become(state: State): void {
    assert(this.#state !== 'closed', `closed → ${state}`);
    assert((this.#client !== undefined) === HAS_CLIENT.has(state), state);
    this.#state = state;
    // Connecting and inspecting share one time limit.
    if (state === 'inspecting') return;
    this.#timer?.close();
    if (state === 'connecting')
      this.#timer = this.#options.clock.after(INSPECT_TIMEOUT_MS, () => this.restart('the server does not answer'));
  }

  async #lookUp(lookup: MasterLookup): Promise<void> {
    this.#become('looking up');
    const result = await lookup.find(this.#lastRefusal).catch((cause: unknown) => ({ cause }));
    this.#lastRefusal = undefined;
    if (this.#state === 'closed') return;
    if (typeof result === 'string') this.#watchMaster(lookup, result, this.#connect(result));
    else this.#failed(result.cause);
  }

  #failed(cause: unknown): void {
    if (hasCode(cause, 'MOVED')) this.#lastRefusal = cause;
    this.restart(messageOf(cause), isNotMaster(cause) || hasCode(cause, ...REFUSES_WRITES));
    if (cause instanceof QueueRefusal) this.#listener.onRefused?.(cause);
  }

  /** Restarts when a server other than the one at `uri` is the master, unless the client was replaced before. */
  #watchMaster(lookup: MasterLookup, uri: string, client: Client): void {
    if (lookup.watchMs === undefined) return;
    const check = async (): Promise<void> => {
      const master = await lookup.find(undefined).catch(() => uri);
      if (client === this.#client && new URL(master).host !== new URL(uri).host)
        this.restart('another server is the master now', true);
    };
    this.#watch = this.#options.clock.every(lookup.watchMs, () => void check());
  }

  #connect(uri: string): Client {
    this.#server = new URL(uri).host;
    const client = this.#make(uri, this.#options.name);
    this.#client = client;
    this.#refused = (cause: unknown): never => {
      const error = causeOf(cause);
      if (client === this.#client && (isNotMaster(error) || (this.ready && hasCode(error, 'MOVED')))) {
        this.#lastRefusal = error;
        this.restart(error.message, true);
      }
      throw error;
    };
    this.#user = {
      onReady: () => void this.#admit(client, uri),
      onLost: (cause) => this.restart(messageOf(causeOf(cause)), false, BROKEN_INTERVAL_MS),
    };
    this.#become('connecting');
    client.join(this.#user);
    return client;
  }

  async #admit(client: Client, uri: string): Promise<void> {
    if (client !== this.#client) return;
    this.#become('inspecting');
    const refused = this.#refused;
    const server: Server = { send: (command) => client.send(command).catch(refused) };
    try {
      await assertMaster(server);
      await this.#listener.inspect?.(server, uri);
    } catch (cause) {
      if (client === this.#client) this.#failed(cause);
      return;
    }
    if (client !== this.#client) return;
    this.#become('ready');
    this.waiting = false;
    const before = this.#readyServer;
    this.#readyServer = this.#server;
    // After a failover, the log line names both servers.
    const moved = before === undefined || before === this.#server ? {} : { before };
    this.#options.log.info({ server: this.#server, ...moved }, 'connected to the queue');
    this.#listener.onReady?.();
  }

  /** Inspects the server again if a command was forbidden, because the user's rights or a key have changed. */
  recheck(cause: unknown): void {
    if (this.ready && (isForbidden(cause) || isExhausted(cause))) this.restart(cause.message);
  }

  /** Gives up the client, if there is one, and tries again when the interval since the last attempt is over. */
  restart(reason: string, waiting = false, intervalMs = REOPEN_INTERVAL_MS): void {
    if (this.#client === undefined && this.#state !== 'looking up') return;
    const { clock, log } = this.#options;
    if (reason !== this.lastError || this.ready) {
      const what = isPasswordRefused(reason)
        ? 'the queue refused the password; trying again'
        : 'no connection to the queue; trying again until there is one';
      log.warn({ server: this.#server, reason }, what);
    }
    const leave = this.#detach();
    this.#become('paused');
    this.lastError = reason;
    this.waiting = waiting;
    this.#timer = clock.after(this.#openedMs + intervalMs - clock.ms(), () => this.open());
    this.#listener.onLost?.(reason);
    leave();
  }

  #detach(): () => void {
    const [client, user] = [this.#client, this.#user];
    this.#client = undefined;
    this.#watch?.close();
    return () => user !== undefined && client?.leave(user);
  }
}
