// One supervised connection to the master of a queue: a Redis 7.0 or newer (or Valkey) server.
//
// States: connecting → inspecting → ready → (lost) → connecting …; closed ends it. Commands are sent only while ready
// and fail immediately otherwise: they are not queued, because their senders would have given up before an answer came,
// and the queue would have no bound. Reconnecting never stops, with pauses of 50 to 500 ms.
//
// Where a MasterLookup stands for the URI, every connection that is lost or refused is thrown away, and the lookup is
// asked anew.
//
// Invariant: a connection is ready only after its server has said that it is a master and after `inspect` has passed. A
// connection that is not trusted any more (the inspection failed, a command met a code of NOT_MASTER, the owner called
// `restart`) is thrown away, and its name is resolved anew, at most once in REOPEN_INTERVAL_MS.
//
// Relies on: node-redis reconnects by itself, but has no time limit for the answers to its greeting, when the server is
// frozen or the network drops packets. So a connection that does not get ready within CONNECT_TIMEOUT_MS is thrown away
// too.
//
// The client below it is a ByteClient, or node-redis in node-redis.ts.
import type { Clock, ClockAndRandom, Timer } from '../../process/clock.ts';
import type { RedisValue, Reply } from '../wire/reply.ts';
import type { Argument, Sender } from '../wire/script.ts';
import type { SecureContextOptions } from 'node:tls';
import type { Credentials } from '../../process/credentials.ts';
import type { Log } from '../../process/log.ts';
import { NoConnection, QueueRefusal, type RedisError, isPasswordRefused, messageOf } from '../wire/errors.ts';
import { type MasterLookup, MasterWatch } from './master-lookup.ts';
import { CONNECT_TIMEOUT_MS, PAUSE_MAX_MS, withTimeout } from '../wire/deadline.ts';
import { assertMaster, isMoved, isNotMaster, isRefusing } from './facts.ts';
import { ByteClient } from '../wire/byte-client.ts';

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

/** How long a connection that was replaced waits for them, a blocking read among them. */
const REPLACED_CLOSE_TIMEOUT_MS = 10_000;

/** Waits for outstanding answers, for `timeoutMs` at most, then closes. */
export async function closeClient(client: Client<unknown>, clock: Clock, timeoutMs = CLOSE_TIMEOUT_MS): Promise<void> {
  if (client.isReady) {
    const timer = clock.after(timeoutMs, () => destroyClient(client));
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

const REOPEN_INTERVAL_MS = 1_000;

/** A server, to be asked for values: what `inspect` is given. */
export type Server = Sender<RedisValue>;

export interface ConnectionOptions extends ClockAndRandom {
  /** `redis://` or `rediss://`, with user, password and database as usual; or who knows one. */
  readonly uri: string | MasterLookup;
  /** What the user and the password of each connection are; by default those of `uri`. */
  readonly credentials?: Credentials | undefined;
  /** Shown by `CLIENT LIST`. */
  readonly name: string;
  readonly log: Log;
  /** This side's certificate, asked for at each connection over TLS; none by default. Only byte connections show it. */
  readonly certificate?: (() => Pick<SecureContextOptions, 'cert' | 'key'>) | undefined;
}

/** Who is told of a connection, as far as it wants to be. */
export interface ConnectionListener {
  /** Asks a new connection's server whether this program may work with it. A rejection throws the connection away. */
  readonly inspect?: (server: Server) => Promise<void>;
  /** Called each time the connection gets ready, and each time it is lost. */
  readonly onReady?: () => void;
  readonly onLost?: (reason: string) => void;
  /** Called each time an inspection finds what waiting does not mend; the connection keeps trying nevertheless. */
  readonly onRefused?: (refusal: QueueRefusal) => void;
}

export class RedisConnection<Answer> {
  readonly #options: ConnectionOptions;
  readonly #dialect: ClientDialect<Answer>;
  #client: Client<Answer> | undefined;
  /** Counts inspections, so that one that a new connection has overtaken says nothing. */
  #inspection = 0;
  #inspected = false;
  #watchdog: Timer | undefined;
  #reopening: Timer | undefined;
  readonly #watch: MasterWatch;
  #openedMs = Number.NEGATIVE_INFINITY;
  #closed = false;
  #wasReady = false;
  #lastError = 'not connected yet';
  #waiting = false;
  #lookingUp = false;
  /** `host:port` of the server that is being connected to, and of the one that was ready last. */
  #server = '';
  /** Of that server. */
  #uri = '';
  #readyServer: string | undefined;
  /** What the server said when the last connection was thrown away, for whoever looks the next one up. */
  #lastRefusal: RedisError | undefined;
  #listener: ConnectionListener = {};

  constructor(options: ConnectionOptions, dialect: ClientDialect<Answer>) {
    this.#options = options;
    this.#watch = new MasterWatch(options.clock);
    this.#dialect = dialect;
    options.credentials?.onChange(() => this.#renew());
  }

  /** Tells `listener` from now on, beside what is told already; to be called before `open`. */
  tell(listener: ConnectionListener): void {
    this.#listener = { ...this.#listener, ...listener };
  }

  /** The same connection, with values for answers. */
  readonly values: Server = { send: (command) => this.send(command).then(this.#dialect.value) };

  get ready(): boolean {
    return this.#inspected && (this.#client?.isReady ?? false);
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

  /** Begins to connect, and keeps at it. */
  open(): void {
    if (this.#closed || this.#client !== undefined || this.#lookingUp) return;
    this.#reopening?.close();
    const { uri, clock } = this.#options;
    this.#openedMs = clock.ms();
    if (typeof uri === 'string') this.#connect(uri);
    else void this.#lookUp(uri);
  }

  async #lookUp(lookup: MasterLookup): Promise<void> {
    this.#lookingUp = true;
    const found = await lookup.find(this.#lastRefusal).catch((cause: unknown) => ({ cause }));
    this.#lookingUp = false;
    this.#lastRefusal = undefined;
    if (this.#closed) return;
    if (typeof found === 'string') {
      this.#connect(found);
      this.#watch.begin(lookup, found, () => this.restart('the master is another server now', true));
      return;
    }
    this.#lost(messageOf(found.cause));
    if (found.cause instanceof QueueRefusal) this.#listener.onRefused?.(found.cause);
    this.#openLater();
  }

  #connect(uri: string): void {
    this.#server = new URL(uri).host;
    this.#uri = uri;
    const client = this.#create(uri);
    this.#client = client;
    this.#armWatchdog();
    client.connect().catch((cause: unknown) => this.#failed(client, cause));
  }

  /**
   * Sends one command. Rejects immediately while the connection is not ready; has no time-out of its own (the caller's
   * deadline decides, and `restart` ends what never comes).
   */
  send(command: readonly Argument[]): Promise<Answer> {
    const client = this.#client;
    if (client === undefined || !this.#inspected)
      return Promise.reject(new NoConnection(`there is no connection to the queue (${this.#lastError})`));
    return client.sendCommand(command);
  }

  /**
   * Throws the connection away, with what is outstanding on it, and makes a new one, at most once in
   * REOPEN_INTERVAL_MS.
   */
  restart(reason: string, waiting = false): void {
    const client = this.#client;
    if (client === undefined || this.#closed) return;
    this.#client = undefined;
    this.#watch.end();
    this.#watchdog?.close();
    this.#lost(reason);
    this.#waiting = waiting;
    destroyClient(client);
    this.#openLater();
  }

  #openLater(): void {
    const { clock } = this.#options;
    const waitMs = this.#openedMs + REOPEN_INTERVAL_MS - clock.ms();
    this.#reopening = clock.after(Math.max(0, waitMs), () => this.open());
  }

  /** Waits a moment for outstanding answers, then closes. Idempotent. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#watchdog?.close();
    this.#watch.end();
    this.#reopening?.close();
    const client = this.#client;
    this.#client = undefined;
    if (client !== undefined) await closeClient(client, this.#options.clock);
  }

  /**
   * Replaces the connection by one with the user and password of now. The old one serves until the new one has passed
   * the inspection, and is closed after its last answer. Where there is none to keep, the next one has the new password
   * anyway.
   */
  async #renew(): Promise<void> {
    const old = this.#client;
    if (old === undefined || this.#closed) return;
    if (!this.ready) return this.restart('the user or the password has changed');
    const client = this.#create(this.#uri);
    try {
      const { clock } = this.#options;
      const ready = new Promise((resolve, reject) => {
        client.on('ready', resolve);
        client.on('error', reject);
      });
      client.connect().catch(() => undefined);
      await withTimeout(clock, ready, CONNECT_TIMEOUT_MS);
      const server: Server = { send: (command) => client.sendCommand(command).then(this.#dialect.value) };
      await assertMaster(server);
      await this.#listener.inspect?.(server);
    } catch (cause) {
      destroyClient(client);
      throw new Error(messageOf(cause), { cause });
    }
    if (old !== this.#client || this.#closed) return destroyClient(client);
    this.#client = client;
    void closeClient(old, this.#options.clock, REPLACED_CLOSE_TIMEOUT_MS);
  }

  #create(uri: string): Client<Answer> {
    const { credentials, name } = this.#options;
    const client = this.#dialect.open(credentials?.applied(uri) ?? uri, name);
    client.on('ready', () => void this.#admit(client));
    client.on('error', (cause) => this.#failed(client, cause));
    client.on('refused', (cause) => {
      if (client !== this.#client || !(isNotMaster(cause) || (this.#inspected && isMoved(cause)))) return;
      this.#lastRefusal = cause;
      this.restart(cause.message, true);
    });
    return client;
  }

  async #admit(client: Client<Answer>): Promise<void> {
    // One that is to replace this one is inspected there.
    if (client !== this.#client) return;
    this.#inspection += 1;
    const inspection = this.#inspection;
    const isLatest = (): boolean => client === this.#client && inspection === this.#inspection && !this.#closed;
    const server: Server = { send: (command) => client.sendCommand(command).then(this.#dialect.value) };
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
    this.#watchdog?.close();
    this.#inspected = true;
    this.#wasReady = true;
    const before = this.#readyServer;
    this.#readyServer = this.#server;
    // After a fail-over both are told.
    const moved = before === undefined || before === this.#server ? {} : { before };
    this.#options.log.info({ server: this.#server, ...moved }, 'connected to the queue');
    this.#listener.onReady?.();
  }

  #failed(client: Client<Answer>, cause: unknown): void {
    if (client !== this.#client || this.#closed) return;
    const reason = messageOf(cause);
    // The master may be another server now.
    if (typeof this.#options.uri !== 'string') this.restart(reason);
    else {
      this.#lost(reason);
      this.#armWatchdog();
    }
  }

  #lost(reason: string): void {
    this.#inspected = false;
    this.#inspection += 1;
    if (reason !== this.#lastError || this.#wasReady) {
      const what = isPasswordRefused(reason)
        ? 'the queue refused the password; trying again'
        : 'no connection to the queue; trying again until there is one';
      this.#options.log.warn({ server: this.#server, reason }, what);
    }
    this.#lastError = reason;
    this.#waiting = false;
    this.#wasReady = false;
    this.#listener.onLost?.(reason);
  }

  #armWatchdog(): void {
    this.#watchdog?.close();
    this.#watchdog = this.#options.clock.after(CONNECT_TIMEOUT_MS + PAUSE_MAX_MS, () => {
      if (!this.ready) this.restart('the server does not answer');
    });
  }
}

/** A connection whose answers are bytes; over a client of its own, or one that `open` makes. */
export const byteConnection = (
  { certificate, ...options }: ConnectionOptions,
  open = (uri: string, name: string): Client<Reply> => new ByteClient({ ...options, uri, name, certificate }),
): RedisConnection<Reply> => new RedisConnection(options, { open, value: (reply) => reply.value() });
