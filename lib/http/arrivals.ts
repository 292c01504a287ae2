// The connections of a server: the balancer's header, a fair share of the CPU time for handshakes, and room for each.
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Timer } from '../process/clock.ts';
import { overBudget, overLimit, victimOf } from './connection-room.ts';
import { handshakeReason } from './connection-failure.ts';
import type { Host } from './connection.ts';
import { HttpConnection } from './fast-path.ts';
import { takeProxyHeader } from './proxy-header.ts';
import { Turns } from './turns.ts';

/** The addresses and ports on both ends, which are the same for a TLS connection and the TCP connection below it. */
const endsOf = ({ remoteAddress, remotePort, localAddress, localPort }: Socket): string =>
  `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;

/** Time limit for a balancer's header, long enough for a retransmission (doc/proxy-protocol.txt, section 2). */
const PROXY_HEADER_TIMEOUT_MS = 5_000;
// Fact: a handshake takes 1 to 2 ms of CPU time, and node accepts one connection in each turn of the event loop. So
// handshakes that begin while the kernel's queue is full delay every connection at its end: 2,300 handshakes delayed a
// new connection by 4.3 s. Choice: a few handshakes begin in a turn, and one in 10 ms while connections arrive.
// Effect: a connection waits for the acceptance of those before it, 0.1 ms each, and for a few handshakes
// (test/http/server-arrivals.test.ts). Behind others of its own address, it may wait for theirs: before its handshake,
// nothing shows whose connection it is.
const HANDSHAKES_A_TURN = 4;
const HANDSHAKE_INTERVAL_MS = 10;

// Fact: a timer for each connection, reset by each request, costs more than the rest of a request's bookkeeping.
// Choice: while there are connections, all are checked ten times a second, so time limits are only that precise.
const CHECK_INTERVAL_MS = 100;

/**
 * While the server is stopping, an idle connection stays open for this long, because a request may be on its way. A
 * connection whose handshake ends meanwhile has this time from then on.
 */
const IDLE_GRACE_MS = 400;

export class Arrivals<T> {
  readonly #host: Host<T>;
  readonly #beginHandshake: ((tcp: Socket) => void) | undefined;
  /** All connections, the oldest first, by their ends. */
  readonly #byEnds = new Map<string, HttpConnection<T>>();
  readonly #handshakes: Turns;
  #checks: Timer | undefined;
  /** When the server began to stop. */
  drainsSinceMs = Infinity;
  #hasArrived = false;
  #handshakesMs = 0;

  /** `beginHandshake` is `undefined` in plain HTTP. */
  constructor(host: Host<T>, beginHandshake: ((tcp: Socket) => void) | undefined) {
    this.#host = host;
    this.#beginHandshake = beginHandshake;
    this.#handshakes = new Turns(host.clock, () => this.#handshakesNow(), 1);
  }

  of(socket: Socket): HttpConnection<T> | undefined {
    return this.#byEnds.get(endsOf(socket));
  }

  /** The connections that are not being destroyed, the oldest first. */
  get all(): HttpConnection<T>[] {
    return [...this.#byEnds.values()].filter(({ socket, tcp }) => !socket.destroyed && !tcp.destroyed);
  }

  #check(): void {
    const { clock, limits } = this.#host;
    const nowMs = clock.ms();
    if (this.#byEnds.size === 0) {
      this.#checks?.close();
      this.#checks = undefined;
    }
    for (const connection of this.all) connection.check(nowMs);
    const { all } = this;
    const over = overLimit(all, limits.connectionsPerAddressMax, nowMs);
    for (const connection of [...over, ...overBudget(all, limits.held)]) connection.fail('limit');
    // At the end of a turn, because a request may arrive in this one.
    if (nowMs >= this.drainsSinceMs) clock.turnEnd(() => this.#closeIdle(nowMs));
  }

  #closeIdle(nowMs: number): void {
    for (const connection of this.all) {
      const { phase, isIdle, tcp, sinceMs } = connection;
      if (nowMs - Math.max(sinceMs, this.drainsSinceMs) < IDLE_GRACE_MS) continue;
      if (isIdle) connection.finish();
      else if (phase === 'header' || phase === 'hello') tcp.destroy();
    }
  }

  arrive(tcp: Socket): void {
    const { limits, handlers } = this.#host;
    const { remoteAddress: address } = tcp;
    if (address === undefined) return void tcp.destroy();
    if (limits.proxyFrom?.check(address, tcp.remoteFamily === 'IPv6' ? 'ipv6' : 'ipv4') === false) {
      handlers.connectionFailure('proxy_source', address);
      return void tcp.destroy();
    }
    const connection = new HttpConnection(tcp, address, this.#host);
    const ends = endsOf(tcp);
    this.#byEnds.set(ends, connection);
    this.#checks ??= this.#host.clock.every(CHECK_INTERVAL_MS, () => this.#check());
    tcp.once('close', () => {
      this.#byEnds.delete(ends);
      const { failure, isOpen, phase } = connection;
      // A balancer that closes before its header only checked that the port is open.
      if (failure !== undefined || (!isOpen && phase !== 'header'))
        handlers.connectionFailure(failure ?? 'reset', connection.address);
    });
    const all = this.#byEnds.size > limits.connectionsMax ? this.all : [];
    const isFull = all.length > limits.connectionsMax;
    if (isFull) victimOf(all, connection, limits.connectionsMax).fail('limit');
    this.#hasArrived ||= !isFull; // In a full room, handshakes must not wait: they could lose their places.
    if (limits.proxyFrom === undefined) return this.#goOn(connection);
    connection.enter('header', PROXY_HEADER_TIMEOUT_MS);
    takeProxyHeader(tcp, (header) => {
      if (header === undefined) return connection.fail('proxy_header');
      connection.address = header.address ?? address;
      connection.enter('hello', limits.handshakeTimeoutMs);
      this.#goOn(connection);
    });
  }

  /** A handshake begins once the client has sent its first bytes, in its address's turn. */
  #goOn(connection: HttpConnection<T>): void {
    const { tcp, address } = connection;
    const beginHandshake = this.#beginHandshake;
    if (tcp.destroyed) return;
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

  secured(socket: TLSSocket): void {
    const connection = this.of(socket);
    if (connection?.phase !== 'handshake') return void socket.destroy();
    socket.allowHalfOpen = true; // Not earlier: a handshake must fail if the client ends its side.
    connection.open(socket);
  }

  notSecured(socket: TLSSocket, error: NodeJS.ErrnoException): void {
    const connection = this.of(socket);
    if (connection === undefined) return void socket.destroy();
    connection.failure ??= handshakeReason(error);
    // TLS has not begun, so the answer is plain text. It is sent before the connection closes.
    if (error.code === 'ERR_SSL_HTTP_REQUEST')
      connection.tcp.end(this.#host.handlers.plainHttp(), 'latin1', () => connection.tcp.destroy());
    else socket.destroy();
  }

  #handshakesNow(): number {
    const nowMs = this.#host.clock.ms();
    const hasArrived = this.#hasArrived;
    this.#hasArrived = false;
    if (hasArrived && nowMs - this.#handshakesMs < HANDSHAKE_INTERVAL_MS) return 0;
    this.#handshakesMs = nowMs;
    return hasArrived ? 1 : HANDSHAKES_A_TURN;
  }
}
