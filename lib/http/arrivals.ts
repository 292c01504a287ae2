// The TCP connections of a server, until node:http or the fast path has them: the balancer's header, a fair share of
// the CPU time for handshakes, and room for each.
import type { Socket } from 'node:net';
import { overLimit, victimOf } from './connection-room.ts';
import { Connection, type Host } from './connection.ts';
import { takeProxyHeader } from './proxy-header.ts';

/** The addresses and ports on both ends, which are the same for a TLS connection and the TCP connection below it. */
const endsOf = ({ remoteAddress, remotePort, localAddress, localPort }: Socket): string =>
  `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;

/** Time limit for a balancer's header, long enough for a retransmission (doc/proxy-protocol.txt, section 2). */
const PROXY_HEADER_TIMEOUT_MS = 5_000;
// Fact: a handshake takes 1 to 2 ms of CPU time, and node accepts one connection in each turn of the event loop. So
// handshakes that begin while the kernel's queue is full delay every connection at its end: 2,300 handshakes delayed a
// new connection by 4.3 s. Choice: a few handshakes begin in a turn, and one in 10 ms while connections arrive.
// Addresses take turns, and every other handshake is that of the address's newest connection. Effect: a connection
// waits for the acceptance of those before it, 0.1 ms each, and for a few handshakes (test/http/server-arrivals.test.ts).
const HANDSHAKES_A_TURN = 4;
const HANDSHAKE_INTERVAL_MS = 10;

export class Arrivals<T> {
  readonly #host: Host<T>;
  readonly #begin: (connection: Connection<T>) => void;
  readonly #awaitsHello: boolean;
  readonly #byEnds = new Map<string, Connection<T>>();
  /** Oldest first, without those that are being closed. */
  readonly #places = new Set<Connection<T>>();
  #isScheduled = false;
  #hasArrived = false;
  /** When handshakes began last, and their number so far. */
  #handshakesMs = 0;
  #handshakes = 0;

  /** `begin` is called with each connection that may go on; in TLS, once the client has sent its first bytes. */
  constructor(host: Host<T>, awaitsHello: boolean, begin: (connection: Connection<T>) => void) {
    this.#host = host;
    this.#awaitsHello = awaitsHello;
    this.#begin = begin;
  }

  /** Returns the connection with a TCP connection or with the TLS connection above it. */
  of(socket: Socket): Connection<T> | undefined {
    return this.#byEnds.get(endsOf(socket));
  }

  destroy(): void {
    for (const { socket } of this.#byEnds.values()) socket.destroy();
  }

  /** Closes connections that have sent nothing. Called while the server is stopping. */
  endSilent(): void {
    for (const { phase, tcp } of this.#byEnds.values()) if (phase === 'header' || phase === 'hello') tcp.destroy();
  }

  check(nowMs: number): void {
    for (const connection of overLimit(this.#places, this.#host.limits, nowMs)) this.#evict(connection);
    for (const connection of this.#byEnds.values()) {
      const { phase, sinceMs } = connection;
      const waitedMs = nowMs - sinceMs;
      if (phase === 'header' && waitedMs >= PROXY_HEADER_TIMEOUT_MS) this.#fail(connection, 'proxy_header');
      if (phase === 'hello' && waitedMs >= this.#host.limits.handshakeTimeoutMs) this.#fail(connection, 'timeout');
    }
  }

  arrive(tcp: Socket): void {
    const { remoteAddress: address } = tcp;
    const { proxyFrom, connectionsMax } = this.#host.limits;
    if (address === undefined) return void tcp.destroy();
    if (proxyFrom?.check(address, tcp.remoteFamily === 'IPv6' ? 'ipv6' : 'ipv4') === false) {
      this.#host.handlers.connectionFailure('proxy_source', address);
      return void tcp.destroy();
    }
    const connection = new Connection(tcp, address, this.#host);
    const ends = endsOf(tcp);
    this.#byEnds.set(ends, connection);
    this.#places.add(connection);
    tcp.once('close', () => {
      this.#places.delete(connection);
      this.#byEnds.delete(ends);
      const { isOpen, phase, failure } = connection;
      // A balancer that closes before its header only checked that the port is open.
      if (!isOpen && (phase !== 'header' || failure !== undefined))
        this.#host.handlers.connectionFailure(failure ?? 'reset', connection.address);
    });
    if (this.#places.size > connectionsMax)
      this.#evict(victimOf(this.#places, connection, this.#host.limits, connection.sinceMs));
    else this.#hasArrived = true; // In a full room, handshakes must not wait: they could lose their places.
    if (tcp.destroyed) return;
    if (proxyFrom === undefined) return this.#goOn(connection);
    connection.phase = 'header';
    takeProxyHeader(tcp, (header) => {
      if (header === undefined) return this.#fail(connection, 'proxy_header');
      connection.address = header.address ?? address;
      connection.sinceMs = this.#host.clock.ms();
      connection.phase = 'hello';
      this.#goOn(connection);
    });
  }

  /** A handshake begins once the client has sent its first bytes, in its address's turn. */
  #goOn(connection: Connection<T>): void {
    const { tcp } = connection;
    if (!this.#awaitsHello) return this.#begin(connection);
    let helloBytes = 0;
    const onReadable = (): void => {
      // The client ended its side, perhaps while its handshake waited for a turn.
      if (tcp.readableLength === helloBytes) return void tcp.destroy();
      helloBytes = tcp.readableLength;
      connection.phase = 'turn';
      connection.sinceMs = Infinity; // This wait is the server's, so no limit applies to it.
      this.#schedule();
    };
    tcp.on('readable', onReadable);
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#host.clock.turnEnd(this.#beginHandshakes);
  }

  readonly #beginHandshakes = (): void => {
    this.#isScheduled = false;
    const count = this.#handshakesNow();
    if (count === 0) return this.#schedule();
    const waiting = [...this.#byEnds.values()].filter(({ phase, tcp }) => phase === 'turn' && !tcp.destroyed);
    const groups = [...Map.groupBy(waiting, ({ address }) => address).values()];
    for (let left = Math.min(count, waiting.length); left > 0; left -= 1) {
      const group = groups[this.#handshakes % groups.length];
      const isForNewest = Math.floor(this.#handshakes / groups.length) % 2 === 0;
      const connection = isForNewest ? group?.pop() : group?.shift();
      this.#handshakes += 1;
      if (connection === undefined) continue;
      connection.phase = 'handshake';
      connection.sinceMs = this.#host.clock.ms();
      connection.tcp.removeAllListeners('readable');
      this.#begin(connection);
    }
    if (groups.some(({ length }) => length > 0)) this.#schedule();
  };

  /** Returns the number of handshakes that may begin in this turn. */
  #handshakesNow(): number {
    const nowMs = this.#host.clock.ms();
    const hasArrived = this.#hasArrived;
    this.#hasArrived = false;
    if (hasArrived && nowMs - this.#handshakesMs < HANDSHAKE_INTERVAL_MS) return 0;
    this.#handshakesMs = nowMs;
    return hasArrived ? 1 : HANDSHAKES_A_TURN;
  }

  #evict(connection: Connection<T>): void {
    this.#places.delete(connection);
    if (!connection.isOpen) return this.#fail(connection, 'limit');
    this.#host.handlers.connectionFailure('limit', connection.address);
    connection.socket.destroy();
  }

  #fail(connection: Connection<T>, reason: 'limit' | 'timeout' | 'proxy_header'): void {
    connection.failure ??= reason;
    connection.tcp.destroy();
  }
}
