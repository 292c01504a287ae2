// One connection to one server, by `createClient` of the package `redis`. It never reconnects: its owner replaces it.
//
// The package gathers the commands of a turn into one write in the next check phase, keeps nothing while there is no
// connection, and rejects every outstanding command when the connection breaks. Its own time limit for commands ends
// when a command has been written, so it is switched off: each caller has a deadline for the reply.
//
// RESP2, because its handshake needs no HELLO, which a Redis user or a proxy may refuse, and which cannot name a user
// without a password. In RESP3 the server may also send messages that nobody asked for.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { EventEmitter } from 'node:events';
import { isIP, type Socket } from 'node:net';
import { createClient, RESP_TYPES } from 'redis';
import { CONNECT_TIMEOUT_MS } from './deadline.ts';
import type { Argument, RedisBytes, RedisValue, Server } from './values.ts';

/**
 * Emits `ready` once after `connect`, and `error` once if the connection is lost or cannot be established. Its causes
 * and those of rejected commands are the package's: see causeOf.
 */
export interface Client extends Server {
  sendForBytes(command: readonly Argument[]): Promise<RedisBytes>;
  /** While this number grows, a reply is still arriving. */
  readonly bytesReceived: number;
  on(event: 'ready' | 'error', listener: (cause?: unknown) => void): unknown;
  connect(): void;
  /** Closes, and rejects outstanding commands. Nothing is emitted afterwards. */
  destroy(): void;
}

const KEEP_ALIVE_MS = 5_000;
const BYTES = { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } };
/** The channel on which Node publishes each socket that this process creates. */
const SOCKETS = 'net.client.socket';

// Fact: for each new address, `createClient` makes a class with all commands, which takes 20 ms. Choice: one client that
// never connects is duplicated, which takes 0.1 ms.
const TEMPLATE = createClient({
  RESP: 2,
  disableOfflineQueue: true,
  disableClientInfo: true,
  commandOptions: { timeout: 0 },
});

function clientTo(url: string, name: string): typeof TEMPLATE {
  // Only a host name may be sent as the server name (RFC 6066, section 3).
  const { hostname } = new URL(url);
  const servername = isIP(hostname.replace(/^\[|\]$/g, '')) === 0 ? { servername: hostname } : {};
  const socket = { reconnectStrategy: false as const, connectTimeout: CONNECT_TIMEOUT_MS };
  return TEMPLATE.duplicate({ url, name, socket: { ...socket, ...servername, keepAliveInitialDelay: KEEP_ALIVE_MS } });
}

export class RedisClient extends EventEmitter implements Client {
  readonly #client: typeof TEMPLATE;
  #socket: Socket | undefined;
  #ended = false;

  constructor(uri: string, name: string) {
    super();
    this.#client = clientTo(uri, name);
    this.#client.on('ready', () => this.#ended || this.emit('ready'));
    this.#client.on('error', (cause: unknown) => {
      if (this.#ended) return;
      // After bytes that are not RESP2, the package would go on, and match replies with the wrong commands.
      this.destroy();
      this.emit('error', cause);
    });
  }

  get bytesReceived(): number {
    return this.#socket?.bytesRead ?? 0;
  }

  connect(): void {
    // The package does not show its socket, and `destroy` does not reach one that is still connecting.
    const created = (message: unknown): void => {
      this.#socket = (message as { readonly socket: Socket }).socket;
    };
    subscribe(SOCKETS, created);
    // A failure is emitted as `error`, too.
    this.#client.connect().catch(() => undefined);
    unsubscribe(SOCKETS, created);
  }

  send(command: readonly Argument[]): Promise<RedisValue> {
    return this.#client.sendCommand(command);
  }

  sendForBytes(command: readonly Argument[]): Promise<RedisBytes> {
    return this.#client.sendCommand(command, BYTES);
  }

  destroy(): void {
    this.#ended = true;
    this.#client.destroy();
    this.#socket?.destroy();
  }
}
