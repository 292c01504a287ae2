// One supervised connection to the master of a queue: a Redis 7.0 or newer (or Valkey) server.
//
// States: see NEXT. Commands are sent only while ready and fail immediately otherwise: they are not queued, because
// their senders would have given up before an answer came, and the queue would have no bound. A client that lost its
// server connects again by itself, with pauses of 50 to 500 ms. With a MasterLookup it is thrown away instead, and the
// lookup is asked again.
//
// Invariant: a connection is ready only after its server has said that it is a master and after `inspect` has passed. A
// client that is not trusted any more (the inspection failed, a command met a code of NOT_MASTER, the owner called
// `restart`) is thrown away, and its name is resolved again, at most once in REOPEN_INTERVAL_MS. A
// connection that does not get ready in time is thrown away too.
import type { ClockAndRandom, Timer } from '../../process/clock.ts';
import type { Reply } from '../wire/reply.ts';
import type { Argument, Server } from '../wire/script.ts';
import assert from 'node:assert/strict';
import type { Log } from '../../process/log.ts';
import { messageOf } from '../../process/message-of.ts';
import { NoConnection, QueueRefusal, type RedisError, isPasswordRefused } from '../wire/errors.ts';
import { type MasterLookup, MasterWatch } from './master-lookup.ts';
import { CONNECT_TIMEOUT_MS, PAUSE_MAX_MS, withTimeout } from '../wire/deadline.ts';
import { assertMaster, isMoved, isNotMaster, isRefusing } from './facts.ts';
import { ByteClient } from '../wire/byte-client.ts';

/** How long a stop waits for the last answers: a frozen server must not hold it up. */
const CLOSE_TIMEOUT_MS = 500;

/** A ByteClient, or one partition's part of a shared one (shared-clients.ts). It reconnects by itself. */
export interface Client {
  readonly isReady: boolean;
  readonly bytesReceived?: number;
  /** `ready`, `error` with the cause, and `refused` with each RedisError that a command met. */
  on(event: string, listener: (cause?: unknown) => void): unknown;
  connect(): Promise<unknown>;
  sendCommand(command: readonly Argument[]): Promise<Reply>;
  close(): Promise<void>;
  destroy(): void;
}

const REOPEN_INTERVAL_MS = 1_000;

export interface ConnectionOptions extends ClockAndRandom {
  /** `redis://` or `rediss://`, with user, password and database as usual; or who knows one. */
  readonly uri: string | MasterLookup;
  /** Shown by `CLIENT LIST`. */
  readonly name: string;
  readonly log: Log;
}

/** The listeners of a connection; each method is optional. */
export interface ConnectionListener {
  /** Asks a new connection's server whether this program may work with it. A rejection throws the connection away. */
  readonly inspect?: (server: Server) => Promise<void>;
  /** Called each time the connection gets ready, and each time it is lost. */
  readonly onReady?: () => void;
  readonly onLost?: (reason: string) => void;
  /** Called each time an inspection finds what waiting does not mend; the connection keeps trying nevertheless. */
  readonly onRefused?: (refusal: QueueRefusal) => void;
}

/** `paused`: no client, and the next attempt is due later. */
type State = 'new' | 'looking up' | 'connecting' | 'inspecting' | 'ready' | 'paused' | 'closed';

/** The states that may follow each one. A client that becomes ready again is inspected again. */
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
  readonly #watch: MasterWatch;
  #state: State = 'new';
  #client: Client | undefined;
  /** Counts inspections, so that one that a new connection has overtaken says nothing. */
  #inspection = 0;
  /** For the state: that a client gets ready in time, or that the next attempt is made. */
  #timer: Timer | undefined;
  #openedMs = Number.NEGATIVE_INFINITY;
  #lastError = 'not connected yet';
  #waiting = false;
  /** `host:port` of the server that is being connected to, and of the one that was ready last. */
  #server = '';
  #readyServer: string | undefined;
  /** What the server said when the last client was thrown away, for the next look-up. */
  #lastRefusal: RedisError | undefined;
  #listener: ConnectionListener = {};

  /** `make` makes a client that is not connected yet; a ByteClient by default. */
  constructor(
    options: ConnectionOptions,
    make = (uri: string, name: string): Client => new ByteClient({ ...options, uri, name }),
  ) {
    this.#options = options;
    this.#watch = new MasterWatch(options.clock);
    this.#make = make;
  }

  /** Tells `listener` from now on, together with those before; to be called before `open`. */
  tell(listener: ConnectionListener): void {
    this.#listener = { ...this.#listener, ...listener };
  }

  /** The same connection, with values for answers. */
  readonly values: Server = { send: (command) => this.send(command).then((reply) => reply.value()) };

  get ready(): boolean {
    return this.#state === 'ready' && this.#client?.isReady === true;
  }

  /** Bytes that the server has sent on this connection; 0 where the client does not count them. */
  get bytesReceived(): number {
    return this.#client?.bytesReceived ?? 0;
  }

  /**
   * Whether the server answers but takes no writes, for example because it is a replica: waiting or a fail-over helps.
   */
  get waiting(): boolean {
    return !this.ready && this.#waiting;
  }

  /** Why the connection is not ready, in words that hold no secret. */
  get lastError(): string {
    return this.#lastError;
  }

  /** Begins to connect, and keeps trying. */
  open(): void {
    if (this.#state !== 'new' && this.#state !== 'paused') return;
    const { uri, clock } = this.#options;
    this.#openedMs = clock.ms();
    if (typeof uri === 'string') this.#connect(uri);
    else void this.#lookUp(uri);
  }

  /**
   * Begins to connect; gives whether it got ready within `timeoutMs`. Rejects with what an inspection finds that
   * waiting does not mend. For an owner that has no listeners for the two itself.
   */
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

  /**
   * Sends one command. Rejects immediately while the connection is not ready; has no time-out of its own (the caller's
   * deadline decides, and `restart` ends what never comes).
   */
  send(command: readonly Argument[]): Promise<Reply> {
    if (this.#state !== 'ready' || this.#client === undefined)
      return Promise.reject(new NoConnection(`there is no connection to the queue (${this.#lastError})`));
    return this.#client.sendCommand(command);
  }

  /**
   * Throws the client away, with what is outstanding on it, and makes a new one, at most once in REOPEN_INTERVAL_MS.
   * Nothing where there is none.
   */
  restart(reason: string, waiting = false): void {
    const client = this.#client;
    if (client === undefined) return;
    this.#client = undefined;
    this.#watch.end();
    this.#lost('paused', reason, waiting);
    client.destroy();
  }

  /** Waits a moment for outstanding answers, then closes. Idempotent. */
  async close(): Promise<void> {
    if (this.#state === 'closed') return;
    const client = this.#client;
    this.#client = undefined;
    this.#become('closed');
    this.#watch.end();
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
    // One time limit for connecting and inspecting together.
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
      this.#connect(found);
      this.#watch.begin(lookup, found, () => this.restart('the master is another server now', true));
      return;
    }
    this.#lost('paused', messageOf(found.cause));
    if (found.cause instanceof QueueRefusal) this.#listener.onRefused?.(found.cause);
  }

  #connect(uri: string): void {
    this.#server = new URL(uri).host;
    const client = this.#create(uri);
    this.#client = client;
    this.#become('connecting');
    client.connect().catch((cause: unknown) => this.#failed(client, cause));
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
    const server: Server = { send: (command) => client.sendCommand(command).then((reply) => reply.value()) };
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
    // After a fail-over both are notified.
    const moved = before === undefined || before === this.#server ? {} : { before };
    this.#options.log.info({ server: this.#server, ...moved }, 'connected to the queue');
    this.#listener.onReady?.();
  }

  #failed(client: Client, cause: unknown): void {
    if (client !== this.#client) return;
    const reason = messageOf(cause);
    // The master may be another server now.
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
