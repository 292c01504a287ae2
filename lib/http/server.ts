// Accepts TLS connections, replaces the TLS material, and stops without losing a request that has arrived.
//
// States: listening → draining → closed. Invariant: the server closes a connection that owes an answer only if a
// deadline has passed, the client is no longer trusted, or another connection needs the place or the memory. A client
// that got no answer may send its event again (openapi/rules.md, 5).
import { constants } from 'node:crypto';
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
import { UnreadAnswers, type UnreadLimits } from './unread-answers.ts';

export interface ServerLimits extends TimeLimits, RoomLimits {
  readonly unreadAnswers: UnreadLimits;
  readonly handshakeTimeoutMs: number;
  readonly headerBytesMax: number;
  readonly httpReader: 'own' | 'node';
  /**
   * Addresses of the load balancers. Only their connections are accepted, and each must begin with a PROXY protocol
   * header. `undefined` if clients connect directly.
   */
  readonly proxyFrom: BlockList | undefined;
}

export interface ServerHandlers<T> extends ConnectionHandlers<T, Connection<T>> {
  readonly context: () => T;
  /** Returns the complete response to a request in plain HTTP. */
  readonly plainHttp: () => string;
  readonly closed?: ((connection: Connection<T>) => void) | undefined;
  /** `reason` is one of HANDSHAKE_FAILURES. `address` is the client's, or the balancer's if it sent no header. */
  readonly handshakeFailure: (reason: string, address: string) => void;
}

interface Arrival<T> {
  /** The client's address, or the balancer's until its header has been read. */
  address: string;
  /** Length of the balancer's header: 0 without a balancer, `undefined` until the header has arrived. */
  headerBytes: number | undefined;
  /** When the connection was accepted; later, when the first byte of the handshake arrived. */
  handshakeSinceMs: number;
  handshakeBegun: boolean;
  readonly context: T;
  /** Why the server cut the handshake short; a `tlsClientError` event follows. */
  cutFor: 'limit' | 'timeout' | 'proxy_header' | undefined;
  connection: Connection<T> | undefined;
}

/** After a restart, more clients than node's default of 511 may reconnect at the same time. */
const BACKLOG = 4_096;
/** Disables node's handshake timeout, which would start when a connection is accepted. */
const NO_TIMEOUT_MS = 2 ** 31 - 1;
/** Time limit for a balancer's header, long enough for a retransmission (doc/proxy-protocol.txt, section 2). */
const PROXY_HEADER_TIMEOUT_MS = 5_000;
const CHECK_INTERVAL_MS = 250;
/** While the server is stopping, an idle connection stays open for this long, because a request may be on its way. */
const IDLE_GRACE_MS = 400;
const IDLE_CHECK_MS = 50;

/**
 * Every TLS context needs these options, because `setSecureContext` forgets options that are not passed to it.
 * Renegotiation in TLS 1.2 would let a client change its certificate during a connection. All suites for TLS 1.2 have
 * forward secrecy and authenticated encryption (RFC 9325, section 4.2).
 */
const TLS_OPTIONS = {
  minVersion: 'TLSv1.2',
  secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
  ciphers: [
    'TLS_AES_256_GCM_SHA384',
    'TLS_CHACHA20_POLY1305_SHA256',
    'TLS_AES_128_GCM_SHA256',
    'ECDHE-ECDSA-AES128-GCM-SHA256',
    'ECDHE-RSA-AES128-GCM-SHA256',
    'ECDHE-ECDSA-AES256-GCM-SHA384',
    'ECDHE-RSA-AES256-GCM-SHA384',
    'ECDHE-ECDSA-CHACHA20-POLY1305',
    'ECDHE-RSA-CHACHA20-POLY1305',
  ].join(':'),
} as const;

export class HttpsServer<T> {
  readonly #server: Server;
  /** Accepts connections: either `#server`, or a TCP server in front of it that reads the balancers' headers. */
  readonly #listener: TcpServer;
  readonly #handlers: ServerHandlers<T>;
  readonly #limits: ServerLimits;
  readonly #host: ConnectionHost<T, Connection<T>>;
  readonly #connections = new Map<Connection<T>, Socket>();
  readonly #handshakes = new Map<Socket, Arrival<T>>();
  /** All TCP connections, including closed ones, because `tlsClientError` may be emitted after the close. */
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
      // The application checks the certificate: a client with a bad one gets an HTTP answer, not a failed handshake.
      requestCert: true,
      rejectUnauthorized: false,
      ALPNProtocols: ['http/1.1'],
      handshakeTimeout: NO_TIMEOUT_MS,
      noDelay: true,
    });
    // If the server has sent bytes, a whole ClientHello has arrived.
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

  /** With `reusePort`, several processes may share a port. Rejects with the system's error. */
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
   * Uses `tls` for new handshakes. Older sessions cannot be resumed: a ticket contains the verdict of the original
   * handshake, and a client that is no longer trusted could use it.
   */
  replaceTls(tls: SecureContextOptions): void {
    this.#server.setSecureContext({ ...tls, ...TLS_OPTIONS });
    this.#server.setTicketKeys(this.#system.random.bytes(48));
  }

  /** Stops listening, closes idle connections, and resolves when all connections are closed. */
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
      socket.allowHalfOpen = true; // Not earlier: a handshake must fail if the client ends its side.
      const connection = new Connection<T>(socket, this.#host, arrival.address, arrival.context);
      this.#connections.set(connection, below);
      arrival.connection = connection;
      this.#makeGo(this.#room.shakeHands(below, connection.certified));
    });
    server.on('tlsClientError', (error: NodeJS.ErrnoException, socket) => {
      const below = socketBelow(socket);
      const arrival = this.#arrivals.get(below);
      this.#handlers.handshakeFailure(arrival?.cutFor ?? handshakeReason(error), arrival?.address ?? '');
      // TLS has not begun, so the answer is plain text. It is sent before the connection closes.
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

  #acceptPassedOn(socket: Socket, from: BlockList): void {
    socket.on('error', () => undefined); // A 'close' event follows.
    const balancer = socket.remoteAddress;
    if (balancer === undefined || !from.check(balancer, socket.remoteFamily === 'IPv6' ? 'ipv6' : 'ipv4')) {
      if (balancer !== undefined) this.#handlers.handshakeFailure('proxy_source', balancer);
      socket.destroy();
      return;
    }
    const arrival = this.#arrive(socket, undefined);
    // If `cutFor` is not set, the balancer closed the connection itself: it only checked that the port is open.
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
  // Choice: check all connections four times a second, so time limits are only that precise.
  #check(): void {
    const now = this.#system.clock.ms();
    for (const connection of this.#connections.keys()) connection.check(now, this.#limits);
    for (const socket of this.#room.slowOnes(now)) this.#makeGo(socket);
    for (const [socket, arrival] of this.#handshakes) this.#checkHandshake(socket, arrival, now);
  }

  /** Closes a connection whose handshake is overdue. The time limit starts again at the client's first byte. */
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

/** Node has no documented way to find this socket (as of 26.10), and addresses and ports do not identify it. */
function socketBelow(socket: TLSSocket): Socket {
  const { _parent: below } = socket as { readonly _parent?: Socket };
  assert(below !== undefined, 'a TLS connection has a TCP connection below it');
  return below;
}
