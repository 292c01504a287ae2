// Accepts connections, replaces the TLS material, and stops without losing a request that has arrived.
//
// node:https (or node:http, for the process endpoints) is the only server. Three of its listeners are taken off and
// called later: for TCP connections, to read the balancer's header and to limit handshakes; for TLS connections, to put
// the fast path in front of it; and for a connection's data, to pass it in slices.
//
// Invariant: the server closes a connection that owes an answer only after a deadline, after a change of trust, or
// because another connection needs the place or the memory. A client that got no answer may send its event again
// (openapi/rules.md, 5).
import assert from 'node:assert/strict';
import { constants } from 'node:crypto';
import { once, type EventEmitter } from 'node:events';
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createHttpsServer, type Server as HttpsServer } from 'node:https';
import { Server as TcpServer, type AddressInfo, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { SecureContextOptions, TLSSocket } from 'node:tls';
import type { Clock, Timer } from '../process/clock.ts';
import { handshakeReason } from './connection-failure.ts';
import { overBudget, overLimit, victimOf } from './eviction.ts';
import type { Connection, Host, ServerHandlers, ServerLimits } from './connection.ts';
import { HttpConnection } from './fast-path.ts';
import { faultOf } from './node-request.ts';
import { takeProxyHeader } from './proxy-header.ts';
import { headTail } from './respond.ts';
import { CALL_COST, Turns } from './turns.ts';

/** After a restart, more clients than node's default of 511 may reconnect at the same time. */
const BACKLOG = 4_096;
const NODE_CHECK_INTERVAL_MS = 1_000;
const REQUESTS_A_TURN = 192;
/** Time limit for a balancer's header, long enough for a retransmission (doc/proxy-protocol.txt, section 2). */
const PROXY_HEADER_TIMEOUT_MS = 5_000;
// Fact: a handshake takes 1 to 2 ms of CPU time, and node accepts one connection in each turn of the event loop, so
// 2,300 handshakes delayed a new connection by 4.3 s. Choice: a few handshakes begin in a turn, and one in 10 ms while
// connections arrive. Effect: a connection waits for the acceptance of those before it, 0.1 ms each, and for a few
// handshakes (test/http/server-arrivals.test.ts), or for those of its own address.
const HANDSHAKES_A_TURN = 4;
const HANDSHAKE_INTERVAL_MS = 10;
// A timer for each connection, reset by each request, would cost more than the rest of a request's bookkeeping. So time
// limits are only this precise.
const CHECK_INTERVAL_MS = 100;

/**
 * Every TLS context needs these options, because `setSecureContext` forgets options that are not passed to it.
 * Renegotiation in TLS 1.2 would let a client change its certificate during a connection. All suites for TLS 1.2 have
 * forward secrecy and authenticated encryption (RFC 9325, section 4.2).
 */
const TLS_OPTIONS = {
  minVersion: 'TLSv1.2',
  secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
  ciphers: 'ECDHE+AESGCM+AES128:ECDHE+AESGCM:ECDHE+CHACHA20',
} as const;

/** The addresses and ports on both ends, which are the same for a TLS connection and the TCP connection below it. */
const endsOf = ({ remoteAddress, remotePort, localAddress, localPort }: Socket): string =>
  `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;

export class HttpServer<T> {
  readonly #server: HttpsServer;
  readonly #host: Host<T>;
  /** `undefined` in plain HTTP. */
  readonly #beginHandshake: ((tcp: Socket) => void) | undefined;
  /** All connections, the oldest first, by their ends. */
  readonly #byEnds = new Map<string, HttpConnection<T>>();
  readonly #handshakes: Turns;
  #checks: Timer | undefined;
  /** When the server began to stop. */
  #drainsSinceMs = Infinity;
  #hasArrived = false;
  #handshakesMs = 0;

  constructor(tls: SecureContextOptions | undefined, limits: ServerLimits, handlers: ServerHandlers<T>, clock: Clock) {
    const server = createServer(tls, limits);
    const accept = takeListener<Socket>(server, 'connection');
    const adopt = tls === undefined ? accept : takeListener<Socket>(server, 'secureConnection');
    this.#server = server;
    this.#beginHandshake = tls && accept;
    const idleSeconds = Math.floor(limits.idleTimeoutMs / 1000);
    this.#host = {
      clock,
      turns: new Turns(clock, () => REQUESTS_A_TURN),
      keepAliveTail: headTail(`Connection: keep-alive\r\nKeep-Alive: timeout=${idleSeconds}`),
      limits,
      handlers,
      adopt: (socket) => {
        adopt(socket);
        return takeListener<Buffer>(socket, 'data');
      },
    };
    this.#handshakes = new Turns(clock, () => this.#handshakesNow());
    server.on('connection', (tcp: Socket) => this.#arrive(tcp));
    server.on('secureConnection', (socket) => this.#secured(socket));
    server.on('tlsClientError', (error, socket) => this.#notSecured(socket, error));
    // Without these listeners, node would answer on its own, without a problem body and without X-Request-Id.
    for (const event of ['request', 'checkContinue', 'checkExpectation'])
      server.on(event, (message: IncomingMessage, response: ServerResponse) =>
        this.#of(message.socket)?.requested(message, response, event === 'checkContinue'),
      );
    server.on('connect', (_message, socket) => this.#of(socket)?.faulty('connect'));
    server.on('clientError', (error, socket) => this.#of(socket)?.faulty(faultOf(error)));
    // Without this listener, node destroys connections that are idle between requests. `Connection.check` closes them.
    server.on('timeout', () => undefined);
  }

  /** The connections on which requests may arrive. */
  get connections(): Connection<T>[] {
    return this.#all.filter(({ isOpen }) => isOpen);
  }

  get hasConnections(): boolean {
    return this.#byEnds.size > 0;
  }

  /** With `reusePort`, several processes may share a port. Rejects with the system's error. */
  async listen(host: string, port: number, reusePort = false): Promise<AddressInfo> {
    this.#server.listen({ port, host, reusePort, backlog: BACKLOG });
    await once(this.#server, 'listening');
    return this.#server.address() as AddressInfo;
  }

  /**
   * Uses `tls` for new handshakes. A new context has new ticket keys, so older sessions cannot be resumed: a ticket
   * contains the verdict of the original handshake, and a client that is no longer trusted could use it.
   */
  replaceTls(tls: SecureContextOptions): void {
    this.#server.setSecureContext({ ...tls, ...TLS_OPTIONS });
  }

  /** Stops listening, closes idle connections, and resolves when all connections are closed. */
  async drain(): Promise<void> {
    this.#drainsSinceMs = this.#host.clock.ms();
    // The method of node:http would also destroy idle connections, even if a request is on its way.
    await new Promise<void>((resolve) => TcpServer.prototype.close.call(this.#server, () => resolve()));
  }

  destroy(): void {
    for (const { socket } of this.#all) socket.destroy();
  }

  #of(socket: Duplex): HttpConnection<T> | undefined {
    return this.#byEnds.get(endsOf(socket as Socket));
  }

  /** The connections that are not being destroyed, the oldest first. */
  get #all(): HttpConnection<T>[] {
    return [...this.#byEnds.values()].filter(({ isGone, tcp }) => !isGone && !tcp.destroyed);
  }

  #check(): void {
    const { clock, limits } = this.#host;
    const nowMs = clock.ms();
    if (this.#byEnds.size === 0) {
      this.#checks?.close();
      this.#checks = undefined;
    }
    for (const connection of this.#all) connection.check(nowMs, this.#drainsSinceMs);
    const all = this.#all;
    const over = overLimit(all, limits.connectionsPerAddressMax, nowMs);
    for (const connection of [...over, ...overBudget(all, limits.held)]) connection.fail('limit');
  }

  #arrive(tcp: Socket): void {
    const { clock, limits, handlers } = this.#host;
    const { remoteAddress: address, remoteFamily } = tcp;
    if (address === undefined) return void tcp.destroy();
    const connection = new HttpConnection(tcp, address, this.#host);
    const ends = endsOf(tcp);
    this.#byEnds.set(ends, connection);
    // At the end of a turn, because a request may arrive in this one.
    this.#checks ??= clock.every(CHECK_INTERVAL_MS, () => clock.turnEnd(() => this.#check()));
    tcp.once('close', () => {
      this.#byEnds.delete(ends);
      const { failure, isOpen, phase } = connection;
      // A balancer that closes before its header only checked that the port is open.
      if (failure !== undefined || (!isOpen && phase !== 'header'))
        handlers.connectionFailure?.(failure ?? 'reset', connection.address);
    });
    if (limits.proxyFrom?.check(address, remoteFamily === 'IPv6' ? 'ipv6' : 'ipv4') === false)
      return connection.fail('proxy_source');
    const all = this.#byEnds.size > limits.connectionsMax ? this.#all : [];
    const isFull = all.length > limits.connectionsMax;
    if (isFull) victimOf(all, connection, limits.connectionsMax).fail('limit');
    this.#hasArrived ||= !isFull; // In a full room, handshakes must not wait: they could lose their places.
    if (limits.proxyFrom === undefined) return this.#openOrBegin(connection);
    connection.enter('header', PROXY_HEADER_TIMEOUT_MS);
    takeProxyHeader(tcp, (header) => {
      if (header === 'invalid') return connection.fail('proxy_header');
      connection.address = header.address ?? address;
      connection.enter('hello', limits.handshakeTimeoutMs);
      this.#openOrBegin(connection);
    });
  }

  /** A handshake begins once the client has sent its first bytes, in its address's turn. */
  #openOrBegin(connection: HttpConnection<T>): void {
    const { tcp, address } = connection;
    const beginHandshake = this.#beginHandshake;
    if (beginHandshake === undefined) return connection.open(tcp);
    const begin = (): boolean => {
      if (tcp.destroyed) return false;
      connection.enter('handshake');
      tcp.removeAllListeners('readable');
      beginHandshake(tcp);
      return true;
    };
    let helloBytes = 0;
    tcp.on('readable', () => {
      // The client ended its side, perhaps while its handshake waited for a turn.
      if (tcp.readableLength === helloBytes) return void tcp.destroy();
      if (helloBytes === 0) this.#handshakes.later(address, begin);
      helloBytes = tcp.readableLength;
      connection.enter('turn');
    });
  }

  #handshakesNow(): number {
    const nowMs = this.#host.clock.ms();
    const hasArrived = this.#hasArrived;
    this.#hasArrived = false;
    if (hasArrived && nowMs - this.#handshakesMs < HANDSHAKE_INTERVAL_MS) return 0;
    this.#handshakesMs = nowMs;
    return CALL_COST * (hasArrived ? 1 : HANDSHAKES_A_TURN);
  }

  #secured(socket: TLSSocket): void {
    const connection = this.#of(socket);
    if (connection?.phase !== 'handshake') return void socket.destroy();
    socket.allowHalfOpen = true; // Not earlier: a handshake must fail if the client ends its side.
    connection.open(socket);
  }

  #notSecured(socket: TLSSocket, error: NodeJS.ErrnoException): void {
    const connection = this.#of(socket);
    if (connection === undefined) return void socket.destroy();
    connection.failure ??= handshakeReason(error);
    // TLS has not begun, so the answer is plain text.
    if (error.code === 'ERR_SSL_HTTP_REQUEST')
      connection.tcp.end(this.#host.handlers.plainHttp?.() ?? '', 'latin1', () => connection.tcp.destroy());
    else socket.destroy();
  }
}

function createServer(tls: SecureContextOptions | undefined, limits: ServerLimits): HttpsServer {
  const options = {
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.idleTimeoutMs,
    connectionsCheckingInterval: NODE_CHECK_INTERVAL_MS,
    maxHeaderSize: limits.headerBytesMax,
    requireHostHeader: false,
    noDelay: true,
    // The application checks the certificate: a client with a bad one gets an HTTP answer.
    requestCert: true,
    rejectUnauthorized: false,
    handshakeTimeout: limits.handshakeTimeoutMs,
  };
  const server =
    tls === undefined ? createHttpServer(options) : createHttpsServer({ ...options, ...tls, ...TLS_OPTIONS });
  server.maxHeadersCount = 0; // A limit would drop fields silently; node-request.ts refuses them.
  // A client that has sent its request and ended its side still gets its answer (RFC 9112, section 9.6).
  return Object.assign(server as HttpsServer, { httpAllowHalfOpen: true });
}

/** Takes node's only listener for an event off a server or socket, and returns it. */
export function takeListener<A>(from: EventEmitter, event: string): (argument: A) => void {
  const [listener, ...others] = from.listeners(event);
  assert(
    listener !== undefined && others.length === 0,
    `node ${process.version} has ${from.listenerCount(event)} listeners for '${event}' on a new server or ` +
      'connection, and this program needs exactly one: use a version of node that package.json allows',
  );
  from.removeAllListeners(event);
  return (argument) => void listener.call(from, argument);
}
