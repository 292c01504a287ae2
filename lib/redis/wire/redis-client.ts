// One connection to one server, by `createClient` of the package `redis`. It never reconnects: its owner replaces it.
//
// The package keeps nothing while there is no connection, and rejects every outstanding command when the connection
// breaks. Its own time limit for commands ends when a command has been written, so it is switched off: each caller has
// a deadline for the reply.
//
// Its documentation does not promise three facts that this file and LateCommand (script.ts) need. A test checks each,
// and names the version: it gathers the commands of a turn into one write in the next check phase; it looks at nothing
// of a command but its length and then its arguments, when it writes it; and `connect` creates its socket, which it
// does not show, before it returns. Node publishes each socket that is created on a channel of diagnostics_channel.
//
// RESP2, because its handshake needs no HELLO, which a Redis user or a proxy may refuse, and which cannot name a user
// without a password. In RESP3 the server may also send messages that nobody asked for.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { isIP, type Socket } from 'node:net';
import { createClient, RESP_TYPES } from 'redis';
import type { Argument, Command, RedisBytes, RedisValue, Server } from './values.ts';

export interface ClientUser {
  readonly onReady: () => void;
  /** The connection is lost or cannot be established. `cause` is the package's: see causeOf. */
  readonly onLost: (cause: unknown) => void;
}

/** A command rejects with a cause of the package, too. */
export interface Client extends Server {
  sendForBytes(command: Command): Promise<RedisBytes>;
  /** While this number grows, a reply is still arriving. */
  readonly bytesReceived: number;
  /** Connects with the first user. Each user is called at most once by each callback, until it leaves. */
  join(user: ClientUser): void;
  /** The last user closes the connection, which rejects outstanding commands. */
  leave(user: ClientUser): void;
}

export const CONNECT_TIMEOUT_MS = 2_000;
const KEEP_ALIVE_MS = 5_000;
const BYTES = { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } };
const SOCKETS = 'net.client.socket';

// Fact: for each new address, `createClient` makes a class with all commands, which takes 20 ms. Choice: duplicate one
// client that never connects, which takes 0.1 ms.
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

export class RedisClient implements Client {
  readonly #client: typeof TEMPLATE;
  readonly #users = new Set<ClientUser>();
  #socket: Socket | undefined;
  /** True if the connection is lost, or somebody has left it, perhaps because the server is silent. */
  wasLeft = false;

  constructor(uri: string, name: string) {
    this.#client = clientTo(uri, name);
    this.#client.on('ready', () => this.#tell((user) => user.onReady()));
    this.#client.on('error', (cause: unknown) => {
      this.wasLeft = true;
      // After bytes that are not RESP2, the package would go on, and match replies with the wrong commands.
      this.#destroy();
      this.#tell((user) => user.onLost(cause));
      this.#users.clear();
    });
  }

  get bytesReceived(): number {
    return this.#socket?.bytesRead ?? 0;
  }

  join(user: ClientUser): void {
    this.#users.add(user);
    if (this.#client.isReady) queueMicrotask(() => this.#users.has(user) && user.onReady());
    else if (this.#socket === undefined) this.#connect();
  }

  leave(user: ClientUser): void {
    this.wasLeft = true;
    if (this.#users.delete(user) && this.#users.size === 0) this.#destroy();
  }

  send(command: Command): Promise<RedisValue> {
    return this.#client.sendCommand(command as readonly Argument[]);
  }

  sendForBytes(command: Command): Promise<RedisBytes> {
    return this.#client.sendCommand(command as readonly Argument[], BYTES);
  }

  #connect(): void {
    // The package's `destroy` does not reach a socket that is still connecting.
    const created = (message: unknown): void => {
      this.#socket = (message as { readonly socket: Socket }).socket;
    };
    subscribe(SOCKETS, created);
    // A failure is emitted as `error`, too.
    this.#client.connect().catch(() => undefined);
    unsubscribe(SOCKETS, created);
  }

  #destroy(): void {
    this.#client.destroy();
    this.#socket?.destroy();
  }

  /** A user may leave before its turn. */
  #tell(tell: (user: ClientUser) => void): void {
    for (const user of [...this.#users]) if (this.#users.has(user)) tell(user);
  }
}

/**
 * Returns a function that opens one client for all partitions with the same master, so that their commands of a turn
 * leave in one write. Nobody joins a client that somebody has left.
 */
export function sharedClients(): (uri: string, name: string) => Client {
  const latest = new Map<string, RedisClient>();
  return (uri, name) => {
    const previous = latest.get(uri);
    const client = previous?.wasLeft === false ? previous : new RedisClient(uri, name);
    latest.set(uri, client);
    return client;
  };
}
