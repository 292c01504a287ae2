// Accepts TLS connections, replaces the TLS material, and stops without losing a request that has arrived.
//
// States: listening → draining → closed. Invariant: the server closes a connection that owes an answer only if its
// deadline has passed, its client is no longer trusted, or another connection needs its place or its memory. A client
// without an answer may send its event again (openapi/rules.md, 5).
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
  readonly httpReader: 'own' | 'node';
  /**
   * The balancers. Only their connections are accepted, each of which begins with a header of the PROXY protocol.
   * `undefined`: clients connect directly.
   */
  readonly proxyFrom: BlockList | undefined;
}

export interface ServerHandlers<T> extends ConnectionHandlers<T, Connection<T>> {
  /** Makes the application's context of a new connection. */
  readonly context: () => T;
  /** Returns the whole response to plain HTTP. */
  readonly plainHttp: () => string;
  readonly closed?: ((connection: Connection<T>) => void) | undefined;
  /** `reason` is one of HANDSHAKE_FAILURES; `address` is the client's. */
  readonly handshakeFailure: (reason: string, address: string) => void;
}

interface Arrival<T> {
  /** The client's address; the balancer's until its header was read. */
  address: string;
  /** The length of the balancer's header; `undefined` until it has arrived. */
  headerBytes: number | undefined;
  /** The time of acceptance, later the time of the first byte of the handshake. */
  handshakeSinceMs: number;
  handshakeBegun: boolean;
  readonly context: T;
  /** Our reason for cutting the handshake; `tlsClientError` follows. */
  cutFor: 'limit' | 'timeout' | 'proxy_header' | undefined;
  connection: Connection<T> | undefined;
}

/** Connections that may wait to be accepted. After a restart, more than node's default of 511 reconnect together. */
const BACKLOG = 4_096;
/** Node's time-out for handshakes would count from the acceptance of a connection. */
const NO_TIMEOUT_MS = 2 ** 31 - 1;
/** The time for a balancer's header, long enough for a retransmission (doc/proxy-protocol.txt, section 2). */
const PROXY_HEADER_TIMEOUT_MS = 5_000;
const CHECK_INTERVAL_MS = 250;
/** While the server stops, an idle connection may bring a request for so long. */
const IDLE_GRACE_MS = 400;
const IDLE_CHECK_MS = 50;

export class HttpsServer<T> {
  readonly #server: Server;
  /** Accepts connections: `#server`, or a TCP server in front of it that reads balancers' headers. */
  readonly #listener: TcpServer;
  readonly #handlers: ServerHandlers<T>;
  readonly #limits: ServerLimits;
  readonly #host: ConnectionHost<T, Connection<T>>;
  readonly #connections = new Map<Connection<T>, Socket>();
  /** Open TCP connections in their handshake. */
  readonly #handshakes = new Map<Socket, Arrival<T>>();
  /** All TCP connections, also closed ones, because `tlsClientError` may follow the end. */
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
      // The application judges the certificate, so that a bad one gets an HTTP answer and not a broken handshake.
      requestCert: true,
      rejectUnauthorized: false,
      ALPNProtocols: ['http/1.1'],
      handshakeTimeout: NO_TIMEOUT_MS,
      noDelay: true,
    });
    // The server has answered the handshake, so a whole ClientHello has arrived.
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

  /** Binds. Several processes may share a port with `reusePort`. Rejects with the system's error. */
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
   * Uses `tls` for new handshakes. Older sessions cannot be resumed: a ticket has the verdict of its first handshake,
   * and a client that lost our trust could use it.
   */
  replaceTls(tls: SecureContextOptions): void {
    this.#server.setSecureContext({ ...tls, ...TLS_OPTIONS });
    this.#server.setTicketKeys(this.#system.random.bytes(48));
  }

  /** Stops listening, closes idle connections, and resolves when every exchange has ended. */
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
      socket.allowHalfOpen = true; // Not earlier: a handshake ends with the client's side.
      const connection = new Connection<T>(socket, this.#host, arrival.address, arrival.context);
      this.#connections.set(connection, below);
      arrival.connection = connection;
      this.#makeGo(this.#room.shakeHands(below, connection.certified));
    });
    server.on('tlsClientError', (error: NodeJS.ErrnoException, socket) => {
      const below = socketBelow(socket);
      const arrival = this.#arrivals.get(below);
      this.#handlers.handshakeFailure(arrival?.cutFor ?? handshakeReason(error), arrival?.address ?? '');
      // TLS has not begun, so the answer is plain text. It leaves before the connection closes.
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

  /** Reads the balancer's header before the handshake. */
  #acceptPassedOn(socket: Socket, from: BlockList): void {
    socket.on('error', () => undefined); // 'close' follows.
    const balancer = socket.remoteAddress;
    if (balancer === undefined || !from.check(balancer, socket.remoteFamily === 'IPv6' ? 'ipv6' : 'ipv4')) {
      if (balancer !== undefined) this.#handlers.handshakeFailure('proxy_source', balancer);
      socket.destroy();
      return;
    }
    const arrival = this.#arrive(socket, undefined);
    // Without a cause, the balancer closed the connection: it checked if the port is open.
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

  /** Closes a connection because there are too many. */
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

  // Fact: a timer for each connection, reset by each request, costs more than the rest of a request's bookkeeping.
  // Choice: all connections are checked a few times a second, and limits are that precise.
  #check(): void {
    const now = this.#system.clock.ms();
    for (const connection of this.#connections.keys()) connection.check(now, this.#limits);
    for (const socket of this.#room.slowOnes(now)) this.#makeGo(socket);
    for (const [socket, arrival] of this.#handshakes) this.#checkHandshake(socket, arrival, now);
  }

  /** The time before the client's first byte does not count as handshake. */
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
