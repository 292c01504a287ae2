// Accepts connections, replaces the TLS material, and stops without losing a request that has arrived.
//
// node:https (or node:http, for the process endpoints) is the only server. This file takes two of its listeners off:
// the one for TCP connections, to read the balancer's header and to limit handshakes, and the one for TLS connections,
// to put the fast path in front of it. Both are called later, with the same sockets.
//
// States: listening → draining → closed. Invariant: the server closes a connection that owes an answer only if a
// deadline has passed, the client is no longer trusted, or another connection needs the place or the memory. A client
// that got no answer may send its event again (openapi/rules.md, 5).
import { constants } from 'node:crypto';
import { createServer as createHttpServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createHttpsServer, type Server as HttpsServer } from 'node:https';
import { Server as TcpServer, type AddressInfo, type BlockList, type Socket } from 'node:net';
import type { SecureContextOptions, TLSSocket } from 'node:tls';
import type { ClockAndRandom, Timer } from '../process/clock.ts';
import { ConnectionRoom, type RoomLimits } from './connection-room.ts';
import { Connection, type ConnectionHandlers, type ConnectionHost, type IdleLimits } from './connection.ts';
import { faultOf, handshakeReason } from './faults.ts';
import { HeldBytes, type HeldLimits } from './held-bytes.ts';
import { takeProxyHeader } from './proxy-header.ts';
import { HeadTail } from './respond.ts';
import { NODE_COST, Turns } from './turns.ts';

export interface ServerLimits extends IdleLimits, RoomLimits {
  readonly held: HeldLimits;
  readonly handshakeTimeoutMs: number;
  readonly headerBytesMax: number;
  /** `node` switches the fast path off. */
  readonly httpReader: 'own' | 'node';
  /**
   * Addresses of the load balancers. Only their connections are accepted, and each must begin with a PROXY protocol
   * header. `undefined` if clients connect directly.
   */
  readonly proxyFrom: BlockList | undefined;
}

export interface ServerHandlers<T> extends ConnectionHandlers<T> {
  readonly context: () => T;
  /** Returns the complete response to a request in plain HTTP. */
  readonly plainHttp: () => string;
  /** `reason` is one of HANDSHAKE_FAILURES. `address` is the client's, or the balancer's if it sent no header. */
  readonly connectionFailure: (reason: string, address: string) => void;
}

/** A TCP connection. Its TLS connection has the same addresses and ports on both ends. */
interface Arrival<T> {
  readonly tcp: Socket;
  readonly ends: string;
  readonly context: T;
  /** The client's address, or the balancer's until its header has been read. */
  address: string;
  /** What the server waits for. */
  phase: 'header' | 'hello' | 'handshake' | 'open';
  sinceMs: number;
  /** Why there will be no TLS connection. */
  failure: string | undefined;
  connection: Connection<T> | undefined;
}

/** After a restart, more clients than node's default of 511 may reconnect at the same time. */
const BACKLOG = 4_096;
/** Time limit for a balancer's header, long enough for a retransmission (doc/proxy-protocol.txt, section 2). */
const PROXY_HEADER_TIMEOUT_MS = 5_000;
const CHECK_INTERVAL_MS = 100;
const NODE_CHECK_INTERVAL_MS = 250;
/** While the server is stopping, an idle connection stays open for this long, because a request may be on its way. */
const IDLE_GRACE_MS = 400;
const IDLE_CHECK_MS = 50;
const REQUESTS_A_TURN = 192;
// Fact: a handshake takes 1 to 2 ms of CPU time, so a storm of them delays everything else. Choice: a few begin in
// each turn of the event loop, and addresses take turns. Effect: a new connection from another address waits for one
// turn (test/end-to-end/connection-limits.test.ts).
const HANDSHAKES_A_TURN = 4;

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

export class HttpServer<T> {
  readonly #server: Server | HttpsServer;
  readonly #isTls: boolean;
  /** Node's own listeners. */
  readonly #beginHandshake: (tcp: Socket) => void;
  readonly #handlers: ServerHandlers<T>;
  readonly #limits: ServerLimits;
  readonly #host: ConnectionHost<T>;
  readonly #arrivals = new Map<string, Arrival<T>>();
  readonly #connections = new Map<Socket, Connection<T>>();
  readonly #room: ConnectionRoom<Arrival<T>>;
  readonly #held: HeldBytes<Connection<T>>;
  readonly #handshakeTurns: Turns;
  readonly #system: ClockAndRandom;
  #watch: Timer | undefined;

  /** `tls` is `undefined` for a server in plain HTTP. */
  constructor(
    tls: SecureContextOptions | undefined,
    limits: ServerLimits,
    handlers: ServerHandlers<T>,
    system: ClockAndRandom,
  ) {
    const { clock } = system;
    this.#system = system;
    this.#handlers = handlers;
    this.#limits = limits;
    this.#isTls = tls !== undefined;
    const options = {
      headersTimeout: limits.headersTimeoutMs,
      requestTimeout: limits.requestTimeoutMs,
      keepAliveTimeout: limits.idleTimeoutMs,
      connectionsCheckingInterval: NODE_CHECK_INTERVAL_MS,
      maxHeaderSize: limits.headerBytesMax,
      requireHostHeader: false,
      noDelay: true,
    };
    this.#server =
      tls === undefined
        ? createHttpServer(options)
        : createHttpsServer({
            ...options,
            ...tls,
            ...TLS_OPTIONS,
            // The application checks the certificate: a client with a bad one gets an HTTP answer.
            requestCert: true,
            rejectUnauthorized: false,
            handshakeTimeout: limits.handshakeTimeoutMs,
          });
    this.#beginHandshake = takeListener(this.#server, 'connection');
    this.#host = {
      clock,
      turns: new Turns(clock, REQUESTS_A_TURN, NODE_COST),
      keepAlive: new HeadTail(
        `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(limits.idleTimeoutMs / 1000)}\r\n`,
      ),
      handlers,
      adopt: this.#isTls ? takeListener(this.#server, 'secureConnection') : this.#beginHandshake,
      usesFastPath: this.#isTls && limits.httpReader === 'own',
    };
    this.#handshakeTurns = new Turns(clock, HANDSHAKES_A_TURN, 1);
    this.#held = new HeldBytes(limits.held);
    this.#room = new ConnectionRoom(limits, {
      // If the server has sent bytes, a whole ClientHello has arrived.
      hasClientHello: ({ tcp }) => tcp.bytesWritten > 0,
      isIdle: ({ connection }) => connection?.isIdle === true,
      producerOf: ({ context }) => handlers.producerOf(context),
    });
    this.#listen();
  }

  get connections(): Iterable<Connection<T>> {
    return this.#connections.values();
  }

  get openConnections(): number {
    return this.#connections.size;
  }

  /** With `reusePort`, several processes may share a port. Rejects with the system's error. */
  listen(host: string, port: number, reusePort = false): Promise<AddressInfo> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen({ port, host, reusePort, backlog: BACKLOG }, () => {
        this.#server.off('error', reject);
        this.#watch = this.#system.clock.every(CHECK_INTERVAL_MS, () => this.#check());
        resolve(this.#server.address() as AddressInfo);
      });
    });
  }

  /**
   * Uses `tls` for new handshakes. Older sessions cannot be resumed: a ticket contains the verdict of the original
   * handshake, and a client that is no longer trusted could use it.
   */
  replaceTls(tls: SecureContextOptions): void {
    const server = this.#server as HttpsServer;
    server.setSecureContext({ ...tls, ...TLS_OPTIONS });
    server.setTicketKeys(this.#system.random.bytes(48));
  }

  /** Stops listening, closes idle connections, and resolves when all connections are closed. */
  async drain(): Promise<void> {
    // The method of node:http would also destroy idle connections, even if a request is on its way.
    const closed = new Promise<void>((resolve) => TcpServer.prototype.close.call(this.#server, () => resolve()));
    const { clock } = this.#system;
    const timer = clock.every(IDLE_CHECK_MS, () => {
      const now = clock.ms();
      for (const connection of this.connections) connection.endIdle(now, IDLE_GRACE_MS);
      for (const { phase, sinceMs, tcp } of this.#arrivals.values())
        if ((phase === 'header' || phase === 'hello') && now - sinceMs >= IDLE_GRACE_MS) tcp.destroy();
    });
    await closed;
    timer.close();
    this.#watch?.close();
  }

  destroy(): void {
    for (const { tcp, connection } of this.#arrivals.values()) (connection ?? tcp).destroy();
  }

  #listen(): void {
    const server = this.#server as HttpsServer; // Both have these events.
    server.maxHeadersCount = 0; // A limit would drop fields silently; node-request.ts refuses them.
    // A client that has sent its request and ended its side still gets its answer (RFC 9112, section 9.6).
    Object.assign(server, { httpAllowHalfOpen: true });
    server.on('connection', (tcp: Socket) => this.#arrive(tcp));
    if (this.#isTls) this.#listenForTls();
    const requested = (message: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void => {
      const connection = this.#connections.get(message.socket);
      connection?.guard(() => connection.nodePath?.requested(message, response, expectsContinue));
    };
    // Without these listeners, node would answer on its own, without a problem body and without X-Request-Id.
    server.on('request', (message, response) => requested(message, response, false));
    server.on('checkContinue', (message, response) => requested(message, response, true));
    server.on('checkExpectation', (message, response) => requested(message, response, false));
    const faulty = (socket: Socket, fault: ReturnType<typeof faultOf>): void => {
      const connection = this.#connections.get(socket); // `undefined` in a handshake: see `tlsClientError`.
      if (!socket.destroyed) connection?.guard(() => connection.nodePath?.faulty(fault));
    };
    server.on('connect', (_message, socket) => faulty(socket as Socket, 'connect'));
    server.on('clientError', (error, socket) => faulty(socket as Socket, faultOf(error)));
    // Without this listener, node destroys connections that are idle between requests. `Connection.check` closes them.
    server.on('timeout', () => undefined);
  }

  #listenForTls(): void {
    const server = this.#server as HttpsServer;
    server.on('secureConnection', (socket: TLSSocket) => {
      const arrival = this.#arrivals.get(endsOf(socket));
      if (arrival?.phase !== 'handshake') return void socket.destroy();
      socket.allowHalfOpen = true; // Not earlier: a handshake must fail if the client ends its side.
      this.#open(arrival, socket);
    });
    server.on('tlsClientError', (error: NodeJS.ErrnoException, socket) => {
      const arrival = this.#arrivals.get(endsOf(socket));
      if (arrival !== undefined) arrival.failure ??= handshakeReason(error);
      // TLS has not begun, so the answer is plain text. It is sent before the connection closes.
      if (error.code === 'ERR_SSL_HTTP_REQUEST' && arrival !== undefined)
        arrival.tcp.end(this.#handlers.plainHttp(), 'latin1', () => arrival.tcp.destroy());
      else socket.destroy();
    });
  }

  #arrive(tcp: Socket): void {
    tcp.on('error', () => undefined); // A 'close' event follows.
    const { remoteAddress: address } = tcp;
    const { proxyFrom } = this.#limits;
    if (address === undefined) return void tcp.destroy();
    if (proxyFrom?.check(address, tcp.remoteFamily === 'IPv6' ? 'ipv6' : 'ipv4') === false) {
      this.#handlers.connectionFailure('proxy_source', address);
      return void tcp.destroy();
    }
    const sinceMs = this.#system.clock.ms();
    const arrival: Arrival<T> = {
      tcp,
      ends: endsOf(tcp),
      context: this.#handlers.context(),
      address,
      phase: proxyFrom === undefined ? 'hello' : 'header',
      sinceMs,
      failure: undefined,
      connection: undefined,
    };
    this.#arrivals.set(arrival.ends, arrival);
    tcp.once('close', () => this.#left(arrival));
    this.#evict(this.#room.enter(arrival, address, sinceMs));
    if (tcp.destroyed) return;
    if (proxyFrom !== undefined) this.#readProxyHeader(arrival);
    else if (this.#isTls) this.#awaitHello(arrival);
    else this.#open(arrival, tcp);
  }

  #left(arrival: Arrival<T>): void {
    const { ends, connection, phase, failure, address } = arrival;
    this.#room.leave(arrival);
    this.#arrivals.delete(ends);
    // A balancer that closes before its header only checked that the port is open.
    if (connection === undefined && (phase !== 'header' || failure !== undefined))
      this.#handlers.connectionFailure(failure ?? 'reset', address);
  }

  #readProxyHeader(arrival: Arrival<T>): void {
    takeProxyHeader(arrival.tcp, (header) => {
      if (header === undefined) return this.#fail(arrival, 'proxy_header');
      const nowMs = this.#system.clock.ms();
      arrival.address = header.address ?? arrival.address;
      arrival.sinceMs = nowMs;
      arrival.phase = 'hello';
      this.#room.leave(arrival);
      this.#evict(this.#room.enter(arrival, arrival.address, nowMs));
      if (this.#isTls) this.#awaitHello(arrival);
      else this.#open(arrival, arrival.tcp);
    });
  }

  /** Begins the handshake once the client has sent its first bytes, in its address's turn. */
  #awaitHello(arrival: Arrival<T>): void {
    const { tcp } = arrival;
    const begin = (): void => {
      if (tcp.destroyed) return;
      arrival.phase = 'handshake';
      this.#beginHandshake(tcp);
    };
    const onReadable = (): void => {
      tcp.off('readable', onReadable);
      if (tcp.readableLength === 0) return void tcp.destroy(); // The client ended its side.
      if (this.#handshakeTurns.take(1)) begin();
      else this.#handshakeTurns.later(arrival.address, begin);
    };
    tcp.on('readable', onReadable);
  }

  #open(arrival: Arrival<T>, socket: Socket): void {
    const connection = new Connection<T>(socket, arrival.tcp, this.#host, arrival.address, arrival.context);
    arrival.phase = 'open';
    arrival.connection = connection;
    this.#connections.set(socket, connection);
    socket.once('close', () => this.#connections.delete(socket));
    this.#evict(this.#room.handshakeDone(arrival, !connection.hasOneAnswer));
  }

  #evict(arrival: Arrival<T> | undefined): void {
    if (arrival?.connection === undefined) {
      if (arrival !== undefined) this.#fail(arrival, 'limit');
    } else {
      this.#handlers.connectionFailure('limit', arrival.address);
      arrival.connection.evict();
    }
  }

  #fail(arrival: Arrival<T>, reason: 'limit' | 'timeout' | 'proxy_header'): void {
    arrival.failure ??= reason;
    arrival.tcp.destroy();
  }

  // Fact: a timer for each connection, reset by each request, costs more than the rest of a request's bookkeeping.
  // Choice: check all connections ten times a second, so time limits are only that precise.
  #check(): void {
    const now = this.#system.clock.ms();
    for (const connection of this.connections) connection.check(now, this.#limits);
    for (const connection of this.#held.over(this.connections)) {
      this.#handlers.connectionFailure('limit', connection.address);
      connection.destroy();
    }
    for (const arrival of this.#room.slowOnes(now)) this.#evict(arrival);
    for (const arrival of this.#arrivals.values()) {
      const waitedMs = now - arrival.sinceMs;
      if (arrival.phase === 'header' && waitedMs >= PROXY_HEADER_TIMEOUT_MS) this.#fail(arrival, 'proxy_header');
      if (arrival.phase === 'hello' && waitedMs >= this.#limits.handshakeTimeoutMs) this.#fail(arrival, 'timeout');
    }
  }
}

const endsOf = ({ remoteAddress, remotePort, localAddress, localPort }: Socket): string =>
  `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;

/** Takes node's only listener for an event off its server, and returns it. */
export function takeListener(server: Server | HttpsServer, event: string): (socket: Socket) => void {
  const listeners = server.listeners(event);
  const [listener] = listeners;
  if (listener === undefined || listeners.length > 1)
    throw new Error(
      `node ${process.version} has ${listeners.length} listeners for '${event}' on a new server, and this program ` +
        'needs exactly one: use a version of node that package.json allows',
    );
  server.removeAllListeners(event);
  return (socket) => void listener.call(server, socket);
}
