// One supervised connection to the master of a queue (Redis 7.0 or newer, or Valkey).
//
// Commands are sent only in state `ready` and fail immediately otherwise. They are not queued, because their senders
// would have given up before the reply, and such a queue would be unbounded.
//
// Invariant: a connection is ready only after its server has reported that it is a master and `inspect` has passed.
// The client is replaced, at most once per REOPEN_INTERVAL_MS, if the inspection fails, if a command receives a code
// in NOT_MASTER, or if the owner calls `restart`. A MasterLookup is asked again each time.
import type { ClockAndRandom, Timer } from '../../process/clock.ts';
import type { Reply } from '../wire/reply.ts';
import { type Argument, type Sender, type Server, valuesOf } from '../wire/script.ts';
import assert from 'node:assert/strict';
import type { Log } from '../../process/log.ts';
import { messageOf } from '../../process/message-of.ts';
import { NoConnection, QueueRefusal, type RedisError, isPasswordRefused } from '../wire/errors.ts';
import { CONNECT_TIMEOUT_MS, PAUSE_MAX_MS, withTimeout } from '../wire/deadline.ts';
import { assertMaster, isMoved, isNotMaster, isRefusing } from './facts.ts';
import { ByteClient } from '../wire/byte-client.ts';

const CLOSE_TIMEOUT_MS = 500;

/** A ByteClient, or one partition's share of one (shared-clients.ts). It reconnects by itself. */
export interface Client extends Sender<Reply> {
  readonly isReady: boolean;
  readonly bytesReceived?: number;
  /** Emits `ready`, `error` with the cause, and `refused` with each RedisError that a command received. */
  on(event: string, listener: (cause?: unknown) => void): unknown;
  connect(): void;
  close(): Promise<void>;
  destroy(): void;
}

const REOPEN_INTERVAL_MS = 1_000;

export interface MasterLookup {
  /** Returns the current master's URI. Called before each connection; `cause` is the reply that ended the last one. */
  readonly find: (cause: RedisError | undefined) => Promise<string>;
  /** The interval between lookups of the master. `undefined` if a replaced master reports the change itself. */
  readonly watchMs?: number;
}

export interface ConnectionOptions extends ClockAndRandom {
  readonly uri: string | MasterLookup;
  readonly name: string;
  readonly log: Log;
}

export interface ConnectionListener {
  /** Rejects if this program must not use the new connection's server. The connection is then closed. */
  readonly inspect?: (server: Server) => Promise<void>;
  /** `client` can be used until `onLost`. It fails commands immediately if it is not ready. */
  readonly onReady?: (client: Client) => void;
  readonly onLost?: (reason: string) => void;
  /** Called each time an inspection fails for a reason that waiting does not fix. The connection keeps trying. */
  readonly onRefused?: (refusal: QueueRefusal) => void;
}

/** `paused` means that there is no client and the next attempt is due later. */
type State = 'new' | 'looking up' | 'connecting' | 'inspecting' | 'ready' | 'paused' | 'closed';

/** The states that may follow each state. A client that reconnected by itself is inspected again. */
const NEXT: Readonly<Record<State, readonly State[]>> = {
  new: ['looking up', 'connecting', 'closed'],
  'looking up': ['connecting', 'paused', 'closed'],
  connecting: ['connecting', 'inspecting', 'paused', 'closed'],
  inspecting: ['connecting', 'inspecting', 'ready', 'paused', 'closed'],
  ready: ['connecting', 'inspecting', 'paused', 'closed'],
  paused: ['looking up', 'connecting', 'closed'],
  closed: [],
};

const HAS_CLIENT: ReadonlySet<State> = new Set(['connecting', 'inspecting', 'ready']);

export class RedisConnection {
  readonly #options: ConnectionOptions;
  readonly #make: (uri: string, name: string) => Client;
  #state: State = 'new';
  #client: Client | undefined;
  /** Counts inspections, so that the result of an earlier one is ignored. */
  #inspection = 0;
  /** Limits the time for connecting and inspecting, or ends a pause. */
  #timer: Timer | undefined;
  #watch: Timer | undefined;
  #openedMs = Number.NEGATIVE_INFINITY;
  #lastError = 'not connected yet';
  #waiting = false;
  #server = '';
  #readyServer: string | undefined;
  /** The error reply that made the last client unusable, for the next lookup. */
  #lastRefusal: RedisError | undefined;
  #listener: ConnectionListener = {};

  constructor(
    options: ConnectionOptions,
    make = (uri: string, name: string): Client => new ByteClient({ ...options, uri, name }),
  ) {
    this.#options = options;
    this.#make = make;
  }

  /** Adds or replaces callbacks. An `inspect` must be set before `open`. */
  tell(listener: ConnectionListener): void {
    this.#listener = { ...this.#listener, ...listener };
  }

  readonly values: Server = valuesOf(this);

  get ready(): boolean {
    return this.#state === 'ready' && this.#client?.isReady === true;
  }

  get bytesReceived(): number {
    return this.#client?.bytesReceived ?? 0;
  }

  /** True if the server replies but accepts no writes, because it is a replica, loading or full. */
  get waiting(): boolean {
    return !this.ready && this.#waiting;
  }

  /** The reason why the connection is not ready. It contains no secrets. */
  get lastError(): string {
    return this.#lastError;
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
    const ready = new Promise((resolve, reject) => this.tell({ onReady: resolve, onRefused: reject }));
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
  send(command: readonly Argument[]): Promise<Reply> {
    if (this.#state !== 'ready' || this.#client === undefined)
      return Promise.reject(new NoConnection(`there is no connection to the queue (${this.#lastError})`));
    return this.#client.send(command);
  }

  restart(reason: string, waiting = false): void {
    const client = this.#client;
    if (client === undefined) return;
    this.#client = undefined;
    this.#watch?.close();
    this.#lost('paused', reason, waiting);
    client.destroy();
  }

  /** Waits briefly for outstanding replies, then closes. Idempotent. */
  async close(): Promise<void> {
    if (this.#state === 'closed') return;
    const client = this.#client;
    this.#client = undefined;
    this.#become('closed');
    this.#watch?.close();
    if (client === undefined) return;
    if (client.isReady) {
      const timer = this.#options.clock.after(CLOSE_TIMEOUT_MS, () => client.destroy());
      await client.close();
      timer.close();
    }
    client.destroy();
  }

  #become(state: State): void {
    assert(NEXT[this.#state].includes(state), `${this.#state} → ${state}`);
    assert((this.#client !== undefined) === HAS_CLIENT.has(state), state);
    this.#state = state;
    // Connecting and inspecting share one time limit.
    if (state === 'inspecting') return;
    this.#timer?.close();
    const { clock } = this.#options;
    if (state === 'connecting')
      this.#timer = clock.after(CONNECT_TIMEOUT_MS + PAUSE_MAX_MS, () => this.restart('the server does not answer'));
    else if (state === 'paused') {
      const waitMs = this.#openedMs + REOPEN_INTERVAL_MS - clock.ms();
      this.#timer = clock.after(Math.max(0, waitMs), () => this.open());
    }
  }

  async #lookUp(lookup: MasterLookup): Promise<void> {
    this.#become('looking up');
    const found = await lookup.find(this.#lastRefusal).catch((cause: unknown) => ({ cause }));
    this.#lastRefusal = undefined;
    if (this.#state === 'closed') return;
    if (typeof found === 'string') {
      this.#watchMaster(lookup, found, this.#connect(found));
      return;
    }
    this.#lost('paused', messageOf(found.cause));
    if (found.cause instanceof QueueRefusal) this.#listener.onRefused?.(found.cause);
  }

  /** Restarts when a server other than the one at `uri` is the master, unless the client was replaced before. */
  #watchMaster(lookup: MasterLookup, uri: string, client: Client): void {
    if (lookup.watchMs === undefined) return;
    const check = async (): Promise<void> => {
      const found = await lookup.find(undefined).catch(() => uri);
      if (client !== this.#client) return;
      if (new URL(found).host === new URL(uri).host) this.#watchMaster(lookup, uri, client);
      else this.restart('another server is the master now', true);
    };
    this.#watch = this.#options.clock.after(lookup.watchMs, () => void check());
  }

  #connect(uri: string): Client {
    this.#server = new URL(uri).host;
    const client = this.#create(uri);
    this.#client = client;
    this.#become('connecting');
    client.connect();
    return client;
  }

  #create(uri: string): Client {
    const client = this.#make(uri, this.#options.name);
    client.on('ready', () => void this.#admit(client));
    client.on('error', (cause) => this.#failed(client, cause));
    client.on('refused', (cause) => {
      if (client !== this.#client || !(isNotMaster(cause) || (this.#state === 'ready' && isMoved(cause)))) return;
      this.#lastRefusal = cause;
      this.restart(cause.message, true);
    });
    return client;
  }

  async #admit(client: Client): Promise<void> {
    if (client !== this.#client) return;
    this.#become('inspecting');
    this.#inspection += 1;
    const inspection = this.#inspection;
    const isLatest = (): boolean => client === this.#client && inspection === this.#inspection;
    const server = valuesOf(client);
    try {
      await assertMaster(server);
      await this.#listener.inspect?.(server);
    } catch (cause) {
      if (!isLatest()) return;
      if (isMoved(cause)) this.#lastRefusal = cause;
      this.restart(messageOf(cause), isNotMaster(cause) || isRefusing(cause));
      if (cause instanceof QueueRefusal) this.#listener.onRefused?.(cause);
      return;
    }
    if (!isLatest() || !client.isReady) return;
    this.#become('ready');
    const before = this.#readyServer;
    this.#readyServer = this.#server;
    // After a failover, the log line names both servers.
    const moved = before === undefined || before === this.#server ? {} : { before };
    this.#options.log.info({ server: this.#server, ...moved }, 'connected to the queue');
    this.#listener.onReady?.(client);
  }

  #failed(client: Client, cause: unknown): void {
    if (client !== this.#client) return;
    const reason = messageOf(cause);
    if (typeof this.#options.uri !== 'string') this.restart(reason);
    else this.#lost('connecting', reason);
  }

  #lost(next: 'connecting' | 'paused', reason: string, waiting = false): void {
    if (reason !== this.#lastError || this.#state === 'ready') {
      const what = isPasswordRefused(reason)
        ? 'the queue refused the password; trying again'
        : 'no connection to the queue; trying again until there is one';
      this.#options.log.warn({ server: this.#server, reason }, what);
    }
    this.#become(next);
    this.#inspection += 1;
    this.#lastError = reason;
    this.#waiting = waiting;
    this.#listener.onLost?.(reason);
  }
}
