// Accepts connections, replaces the TLS material, and stops without losing a request that has arrived.
//
// Invariants: a connection and its sockets find each other by reference, because a client can use its address and port
// again. A connection is in the set of all from its first moment until its socket is closed, and only it leaves then.
// A connection that owes an answer is closed only for a reason of openapi/rules.md, 5.
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Server as HttpsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { SecureContextOptions, TLSSocket } from 'node:tls';
import type { Clock, Timer } from '../process/clock.ts';
import { handshakeReason } from './connection-failure.ts';
import { overBudget, overLimit, victimOf } from './eviction.ts';
import type { Connection, Host, ServerHandlers, ServerLimits } from './connection.ts';
import { HttpConnection } from './fast-path.ts';
import { Handshakes } from './handshakes.ts';
import { faultOf } from './node-request.ts';
import * as node from './node-server.ts';
import { takeProxyHeader } from './proxy-header.ts';
import { headTail } from './respond.ts';
import { Turns } from './turns.ts';

/** Node's default is 511, but after a restart, more clients reconnect. */
const BACKLOG = 4_096;
const REQUESTS_A_TURN = 192;
/** Time limit for a balancer's header, long enough for a retransmission (doc/proxy-protocol.txt, section 2). */
const PROXY_HEADER_TIMEOUT_MS = 5_000;
/** Time limits are only this precise. A check of 10,000 connections takes 2 ms. */
const CHECK_INTERVAL_MS = 100;

export class HttpServer<T> {
  readonly #server: HttpsServer;
  readonly #host: Host<T>;
  /** `undefined` in plain HTTP. */
  readonly #beginHandshake: ((tcp: Socket, end: node.HandshakeEnd) => void) | undefined;
  /** All connections, the oldest first. */
  readonly #connections = new Set<HttpConnection<T>>();
  /** The connections that node:http reads. */
  readonly #ofSocket = new WeakMap<Duplex, HttpConnection<T>>();
  readonly #handshakes: Handshakes;
  #checks: Timer | undefined;
  /** When the server began to stop. */
  #drainsSinceMs = Infinity;

  constructor(tls: SecureContextOptions | undefined, limits: ServerLimits, handlers: ServerHandlers<T>, clock: Clock) {
    const server = node.createServer(tls, limits);
    const adopt = node.takeListener<Socket>(server, tls === undefined ? 'connection' : 'secureConnection');
    this.#server = server;
    this.#beginHandshake = tls && node.takeHandshakes(server);
    const idleSeconds = Math.floor(limits.idleTimeoutMs / 1000);
    this.#host = {
      clock,
      turns: new Turns(clock, () => REQUESTS_A_TURN),
      keepAliveTail: headTail(`Connection: keep-alive\r\nKeep-Alive: timeout=${idleSeconds}`),
      limits,
      handlers,
      adopt: (connection) => {
        const { socket } = connection;
        this.#ofSocket.set(socket, connection as HttpConnection<T>);
        adopt.call(server, socket);
        return node.takeListener<Buffer>(socket, 'data').bind(socket);
      },
    };
    this.#handshakes = new Handshakes(clock, limits.handshakeTimeoutMs);
    server.on('connection', (tcp: Socket) => this.#arrive(tcp));
    // Without these listeners, node would answer on its own, without a problem body and without X-Request-Id.
    for (const event of ['request', 'checkContinue', 'checkExpectation'])
      server.on(event, (message: IncomingMessage, response: ServerResponse) =>
        this.#ofSocket.get(message.socket)?.requested(message, response, event === 'checkContinue'),
      );
    server.on('connect', ({ socket }) => this.#ofSocket.get(socket)?.faulty('connect'));
    server.on('clientError', (error, socket) => this.#ofSocket.get(socket)?.faulty(faultOf(error)));
    // Without this listener, node destroys connections that are idle between requests. `Connection.check` closes them.
    server.on('timeout', () => undefined);
  }

  get connections(): Connection<T>[] {
    return this.#all.filter(({ isOpen }) => isOpen);
  }

  get hasConnections(): boolean {
    return this.#connections.size > 0;
  }

  /** With `reusePort`, several processes may share a port. Rejects with the system's error. */
  async listen(host: string, port: number, reusePort = false): Promise<AddressInfo> {
    await node.assertBehavior();
    this.#server.listen({ port, host, reusePort, backlog: BACKLOG });
    await once(this.#server, 'listening');
    return this.#server.address() as AddressInfo;
  }

  /**
   * Uses `tls` for new handshakes. A new context has new ticket keys, so older sessions cannot be resumed: a ticket
   * contains the verdict of the original handshake, and a client that is no longer trusted could use it.
   */
  replaceTls(tls: SecureContextOptions): void {
    this.#server.setSecureContext({ ...tls, ...node.TLS_OPTIONS });
  }

  /** Resolves when all connections are closed. */
  async drain(): Promise<void> {
    this.#drainsSinceMs = this.#host.clock.ms();
    await node.stopListening(this.#server);
  }

  destroy(): void {
    for (const { socket } of this.#all) socket.destroy();
  }

  /** The connections that are not being destroyed, the oldest first. */
  get #all(): HttpConnection<T>[] {
    return [...this.#connections].filter(({ isGone, tcp }) => !isGone && !tcp.destroyed);
  }

  #check(): void {
    const { clock, limits } = this.#host;
    const nowMs = clock.ms();
    if (this.#connections.size === 0) {
      this.#checks?.close();
      this.#checks = undefined;
    }
    this.#handshakes.check(nowMs);
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
    this.#connections.add(connection);
    // At the end of a turn, because a request may arrive in this one.
    this.#checks ??= clock.every(CHECK_INTERVAL_MS, () => clock.turnEnd(() => this.#check()));
    tcp.once('close', () => {
      this.#connections.delete(connection);
      const { failure, isOpen, phase } = connection;
      // A balancer that closes before its header only checked that the port is open.
      if (failure !== undefined || (!isOpen && phase !== 'header'))
        handlers.connectionFailure?.(failure ?? 'reset', connection.address);
    });
    if (limits.proxyFrom?.check(address, remoteFamily === 'IPv6' ? 'ipv6' : 'ipv4') === false)
      return connection.fail('proxy_source');
    const all = this.#connections.size > limits.connectionsMax ? this.#all : [];
    const isFull = all.length > limits.connectionsMax;
    if (isFull) victimOf(all, connection, limits.connectionsMax).fail('limit');
    if (!isFull) this.#handshakes.arrived(); // In a full room, handshakes must not wait: they could lose their places.
    if (limits.proxyFrom === undefined) return this.#openOrBegin(connection);
    connection.enter('header', PROXY_HEADER_TIMEOUT_MS);
    takeProxyHeader(tcp, (header) => {
      if (header === 'invalid') return connection.fail('proxy_header');
      connection.address = header.address ?? address;
      connection.enter('hello', limits.handshakeTimeoutMs);
      this.#openOrBegin(connection);
    });
  }

  #openOrBegin(connection: HttpConnection<T>): void {
    const { tcp } = connection;
    const beginHandshake = this.#beginHandshake;
    if (beginHandshake === undefined) return connection.open(tcp);
    const end: node.HandshakeEnd = {
      secured: (socket) => this.#secured(connection, socket),
      failed: (error, socket) => this.#notSecured(connection, socket, error),
    };
    this.#handshakes.add(connection, () => beginHandshake(tcp, end));
  }

  #secured(connection: HttpConnection<T>, socket: TLSSocket): void {
    if (connection.phase !== 'handshake') return void socket.destroy();
    if (!this.#handshakes.secured(connection)) return connection.fail('handshake_size');
    socket.allowHalfOpen = true; // Not earlier: a handshake must fail if the client ends its side.
    connection.open(socket);
  }

  #notSecured(connection: HttpConnection<T>, socket: TLSSocket, error: NodeJS.ErrnoException): void {
    const { tcp } = connection;
    connection.failure ??= handshakeReason(error);
    // TLS has not begun, so the answer is plain text.
    if (error.code === 'ERR_SSL_HTTP_REQUEST')
      tcp.end(this.#host.handlers.plainHttp?.(connection.plainRequestId) ?? '', 'latin1', () => tcp.destroy());
    else socket.destroy();
  }
}
