// Listens, takes TLS connections, swaps the TLS material, and stops without losing a request whose bytes got in.
//
// States: listening → draining → closed. Invariants: every time-out and limit below is on; the server closes a
// connection that owes an answer only if its deadline has passed, its client is not trusted any more, or another
// connection needs its place or its memory. A client without an answer may send its event again (openapi/rules.md, 5).
import {
  createServer as createTcpServer,
  type AddressInfo,
  type BlockList,
  type Server as TcpServer,
  type Socket,
} from 'node:net';
import { createServer, type SecureContextOptions, type Server, type TLSSocket } from 'node:tls';
import type { ClockAndRandom, Timer } from '../process/clock.ts';
import { assert } from './assert.ts';
import { ConnectionRoom, type RoomLimits } from './connection-room.ts';
import type { ConnectionHandlers, ConnectionHost } from './connection-host.ts';
import { Connection } from './connection.ts';
import type { TimeLimits } from './idle-watch.ts';
import { handshakeReason } from './node/faults.ts';
import { HandOver } from './node/hand-over.ts';
import { takeProxyHeader } from './proxy-header.ts';
import { socketBelow, TLS_OPTIONS } from './tls-options.ts';
import { UnreadAnswers, type UnreadLimits } from './unread-answers.ts';

/** All times in milliseconds. */
export interface ServerLimits extends TimeLimits, RoomLimits {
  readonly unreadAnswers: UnreadLimits;
  readonly handshakeTimeoutMs: number;
  readonly headerBytesMax: number;
  /** Who reads plain requests. */
  readonly httpReader: 'own' | 'node';
  /**
   * The balancers that pass connections on: each begins with a header of the PROXY protocol, and no other is taken.
   * Undefined: connections are the clients' own.
   */
  readonly proxyFrom: BlockList | undefined;
}

export interface ServerHandlers<T> extends ConnectionHandlers<T, Connection<T>> {
  /** Makes the application's part of a connection that was just accepted. */
  readonly context: () => T;
  /** Plain HTTP came where TLS is expected: the whole response to write. */
  readonly plainHttp: () => string;
  readonly closed?: ((connection: Connection<T>) => void) | undefined;
  /** `reason` is one of HANDSHAKE_FAILURES; `address` is the client's. */
  readonly handshakeFailure: (reason: string, address: string) => void;
}

/** A TCP connection from its acceptance on. */
interface Arrival<T> {
  /** The client's; a balancer's until its header was read. */
  address: string;
  /** How long a balancer's header before the handshake is; undefined while it is awaited. */
  headerBytes: number | undefined;
  /** When it was accepted; once the first byte of its handshake was read, when that was found. */
  handshakeSinceMs: number;
  handshakeBegun: boolean;
  readonly context: T;
  /** Why we cut its handshake; `tlsClientError` follows. */
  cutFor: 'limit' | 'timeout' | 'proxy_header' | undefined;
  /** Undefined until the handshake is done. */
  connection: Connection<T> | undefined;
}

/**
 * Connections that may wait to be accepted, if the system allows so many: node's default of 511 is less than the burst
 * after a restart, when all clients reconnect.
 */
const BACKLOG = 4_096;
/** Node's own time-out for handshakes counts from a connection's acceptance; ours does not. */
const NO_TIMEOUT_MS = 2 ** 31 - 1;
/** How long a balancer may take for its header: time to send a lost one again (doc/proxy-protocol.txt, section 2). */
const PROXY_HEADER_TIMEOUT_MS = 5_000;
const CHECK_INTERVAL_MS = 250;
/** While stopping: how long a connection with nothing going on may still bring a request. */
const IDLE_GRACE_MS = 400;
const IDLE_CHECK_MS = 50;

export class HttpsServer<T> {
  readonly #server: Server;
  /** Accepts connections: `#server` itself, or where balancers send headers a server before it. */
  readonly #listener: TcpServer;
  readonly #handlers: ServerHandlers<T>;
  readonly #limits: ServerLimits;
  readonly #host: ConnectionHost<T, Connection<T>>;
  /** Each with the TCP connection below it. */
  readonly #connections = new Map<Connection<T>, Socket>();
  /** Open TCP connections whose handshake is not done. */
  readonly #handshakes = new Map<Socket, Arrival<T>>();
  /** Of all TCP connections: a closed one's `tlsClientError` may be still to come. */
  readonly #arrivals = new WeakMap<Socket, Arrival<T>>();
  readonly #room: ConnectionRoom<Socket>;
  readonly #unread: UnreadAnswers<Connection<T>>;
  readonly #system: ClockAndRandom;
  #watch: Timer | undefined;

  constructor(tls: SecureContextOptions, limits: ServerLimits, handlers: ServerHandlers<T>, system: ClockAndRandom) {
    const { clock } = system;
    this.#system = system;
    this.#handlers = handlers;
    this.#limits = limits;
    this.#unread = new UnreadAnswers(limits.unreadAnswers);
    this.#host = {
      keepAlive: `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(limits.idleTimeoutMs / 1000)}\r\n`,
      clock,
      handOver: new HandOver(limits, clock),
      readsPlain: limits.httpReader === 'own',
      handlers,
      turn: { awake: [], answered: 0 },
      waits: (connection, bytes) => {
        const holder = handlers.producerOf(connection.context) ?? '';
        this.#unread.waits(connection, holder, bytes)?.destroy();
      },
      closed: (connection) => {
        this.#connections.delete(connection);
        handlers.closed?.(connection);
      },
    };
    this.#server = createServer({
      ...tls,
      ...TLS_OPTIONS,
      // The certificate is asked for and judged by the application: a bad one gets an HTTP answer, no broken handshake.
      requestCert: true,
      rejectUnauthorized: false,
      ALPNProtocols: ['http/1.1'],
      handshakeTimeout: NO_TIMEOUT_MS,
      noDelay: true,
    });
    // Below TLS: the handshake was answered, so its whole ClientHello has come.
    const hasBegun = ({ bytesWritten }: Socket): boolean => bytesWritten > 0;
    this.#room = new ConnectionRoom(limits, {
      hasBegun,
      isIdle: (socket) => this.#arrivals.get(socket)?.connection?.idle === true,
      producerOf: (socket) => {
        const context = this.#arrivals.get(socket)?.context;
        return context && handlers.producerOf(context);
      },
    });
    const { proxyFrom } = limits;
    this.#listener =
      proxyFrom === undefined
        ? this.#server
        : createTcpServer({ noDelay: true }, (socket) => this.#acceptPassedOn(socket, proxyFrom));
    this.#listen();
  }

  get connections(): Iterable<Connection<T>> {
    return this.#connections.keys();
  }

  /**
   * Binds; with `reusePort` next to others that do so too. Rejects with the system's error (EADDRINUSE, EACCES,
   * ENOTFOUND …).
   */
  listen(host: string, port: number, reusePort = false): Promise<AddressInfo> {
    return new Promise((resolve, reject) => {
      this.#listener.once('error', reject);
      this.#listener.listen({ port, host, reusePort, backlog: BACKLOG }, () => {
        this.#listener.off('error', reject);
        this.#watch = this.#system.clock.every(CHECK_INTERVAL_MS, () => this.#check());
        resolve(this.#listener.address() as AddressInfo);
      });
    });
  }

  /**
   * New handshakes use `tls` from now on. Sessions that were granted before cannot be resumed: a ticket carries the
   * verdict of its first handshake, and who lost our trust must not come back by it.
   */
  replaceTls(tls: SecureContextOptions): void {
    this.#server.setSecureContext({ ...tls, ...TLS_OPTIONS });
    this.#server.setTicketKeys(this.#system.random.bytes(48));
  }

  /**
   * Stops listening, lets every exchange end (the application says `Connection: close` from now on), closes connections
   * that bring nothing for a moment, and resolves when none is left.
   */
  async drain(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#listener.close(() => resolve()));
    const { clock } = this.#system;
    const timer = clock.every(IDLE_CHECK_MS, () => {
      for (const connection of this.#connections.keys()) connection.endIdle(clock.ms(), IDLE_GRACE_MS);
    });
    await closed;
    timer.close();
    this.#watch?.close();
  }

  /** Closes every connection immediately. */
  destroy(): void {
    for (const connection of this.#connections.keys()) connection.destroy();
    for (const socket of this.#handshakes.keys()) socket.destroy();
  }

  #listen(): void {
    const server = this.#server;
    server.on('connection', (socket: Socket) => {
      if (!this.#arrivals.has(socket)) this.#arrive(socket, 0);
    });
    server.on('secureConnection', (socket: TLSSocket) => {
      const below = socketBelow(socket);
      const arrival = this.#arrivals.get(below);
      assert(arrival !== undefined, 'a handshake that is done was of a connection that arrived');
      assert(arrival.connection === undefined, 'a connection shakes hands once');
      this.#handshakes.delete(below);
      socket.allowHalfOpen = true; // Not before: a handshake ends with the client's side.
      const connection = new Connection<T>(socket, this.#host, arrival.address, arrival.context);
      this.#connections.set(connection, below);
      arrival.connection = connection;
      this.#makeGo(this.#room.shakeHands(below, connection.certified));
    });
    server.on('tlsClientError', (error: NodeJS.ErrnoException, socket) => {
      const below = socketBelow(socket);
      const arrival = this.#arrivals.get(below);
      this.#handlers.handshakeFailure(arrival?.cutFor ?? handshakeReason(error), arrival?.address ?? '');
      // Nothing of TLS has begun, so the answer is plain text too. It leaves before the connection is closed.
      if (error.code === 'ERR_SSL_HTTP_REQUEST') below.end(this.#handlers.plainHttp(), 'latin1', () => below.destroy());
      else socket.destroy();
    });
  }

  #arrive(socket: Socket, headerBytes: number | undefined): Arrival<T> {
    assert(!this.#arrivals.has(socket), 'a connection arrives once');
    const address = socket.remoteAddress ?? '';
    const nowMs = this.#system.clock.ms();
    const arrival: Arrival<T> = {
      address,
      headerBytes,
      handshakeSinceMs: nowMs,
      handshakeBegun: false,
      context: this.#handlers.context(),
      cutFor: undefined,
      connection: undefined,
    };
    this.#arrivals.set(socket, arrival);
    this.#handshakes.set(socket, arrival);
    this.#makeGo(this.#room.enter(socket, address, nowMs));
    socket.once('close', () => {
      this.#room.leave(socket);
      this.#handshakes.delete(socket);
    });
    return arrival;
  }

  /** A balancer says whose connection it is; then the handshake begins. */
  #acceptPassedOn(socket: Socket, from: BlockList): void {
    socket.on('error', () => undefined); // 'close' follows.
    const balancer = socket.remoteAddress;
    if (balancer === undefined || !from.check(balancer, socket.remoteFamily === 'IPv6' ? 'ipv6' : 'ipv4')) {
      if (balancer !== undefined) this.#handlers.handshakeFailure('proxy_source', balancer); // Else it is closed.
      socket.destroy();
      return;
    }
    const arrival = this.#arrive(socket, undefined);
    // Without a cause the balancer itself closed it: it looked whether the port is open.
    socket.once('close', () => {
      if (arrival.headerBytes === undefined && arrival.cutFor !== undefined)
        this.#handlers.handshakeFailure(arrival.cutFor, balancer);
    });
    takeProxyHeader(socket, (header) => {
      if (header === undefined) {
        arrival.cutFor = 'proxy_header';
        socket.destroy();
        return;
      }
      assert(arrival.headerBytes === undefined, 'a balancer sends one header');
      arrival.headerBytes = header.bytes;
      arrival.address = header.address ?? balancer;
      arrival.handshakeSinceMs = this.#system.clock.ms();
      this.#room.leave(socket);
      this.#room.enter(socket, arrival.address, arrival.handshakeSinceMs);
      this.#server.emit('connection', socket);
    });
  }

  /** There are too many connections. */
  #makeGo(socket: Socket | undefined): void {
    if (socket === undefined) return;
    const arrival = this.#arrivals.get(socket);
    if (arrival?.connection === undefined) {
      if (arrival !== undefined) arrival.cutFor = 'limit';
      socket.destroy();
    } else {
      this.#handlers.handshakeFailure('limit', arrival.address);
      arrival.connection.giveWay();
    }
  }

  // Fact: a timer for each connection, reset by each request, costs more than the requests' own book-keeping.
  // Choice: all connections are checked a few times a second, and limits are kept to within that interval.
  #check(): void {
    const now = this.#system.clock.ms();
    for (const connection of this.#connections.keys()) connection.check(now, this.#limits);
    for (const socket of this.#room.slowOnes(now)) this.#makeGo(socket);
    for (const [socket, arrival] of this.#handshakes) this.#checkHandshake(socket, arrival, now);
  }

  /** The time that a client took before its first byte is not counted against its handshake. */
  #checkHandshake(socket: Socket, arrival: Arrival<T>, nowMs: number): void {
    if (arrival.headerBytes === undefined) {
      if (nowMs - arrival.handshakeSinceMs < PROXY_HEADER_TIMEOUT_MS) return;
      arrival.cutFor ??= 'proxy_header';
      socket.destroy();
      return;
    }
    if (!arrival.handshakeBegun && socket.bytesRead > arrival.headerBytes) {
      arrival.handshakeBegun = true;
      arrival.handshakeSinceMs = nowMs;
    }
    if (nowMs - arrival.handshakeSinceMs < this.#limits.handshakeTimeoutMs) return;
    arrival.cutFor ??= 'timeout';
    socket.destroy();
  }
}
