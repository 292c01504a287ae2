// The TCP connections of a server, until node:http or the fast path has them: the balancer's header, a fair share of
// the CPU time for handshakes, and room for each.
import type { BlockList, Socket } from 'node:net';
import type { Clock } from '../process/clock.ts';
import { overLimit, victimOf, type Place, type RoomLimits } from './connection-room.ts';
import type { Connection } from './connection.ts';
import { takeProxyHeader } from './proxy-header.ts';
import { Turns } from './turns.ts';

export interface ArrivalLimits extends RoomLimits {
  readonly handshakeTimeoutMs: number;
  /**
   * Addresses of the load balancers. Only their connections are accepted, and each must begin with a PROXY protocol
   * header. `undefined` if clients connect directly.
   */
  readonly proxyFrom: BlockList | undefined;
}

/** A TCP connection. Its TLS connection has the same addresses and ports on both ends. */
export class Arrival<T> implements Place {
  readonly tcp: Socket;
  readonly ends: string;
  readonly context: T;
  /** The client's address, or the balancer's until its header has been read. */
  address: string;
  /** What the server waits for. */
  phase: 'header' | 'hello' | 'handshake' | 'open' = 'hello';
  sinceMs: number;
  /** Why there will be no TLS connection. */
  failure: string | undefined;
  connection: Connection<T> | undefined;

  constructor(tcp: Socket, address: string, context: T, nowMs: number) {
    this.tcp = tcp;
    this.context = context;
    this.ends = endsOf(tcp);
    this.address = address;
    this.sinceMs = nowMs;
  }

  get hasClientHello(): boolean {
    return this.tcp.bytesWritten > 0; // The server answers a whole ClientHello.
  }
  get isAuthenticated(): boolean | undefined {
    return this.connection && !this.connection.hasOneAnswer;
  }
  get producer(): string | undefined {
    return this.connection?.producer;
  }
  get isIdle(): boolean {
    return this.connection?.isIdle === true;
  }
}

const endsOf = ({ remoteAddress, remotePort, localAddress, localPort }: Socket): string =>
  `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;

/** Time limit for a balancer's header, long enough for a retransmission (doc/proxy-protocol.txt, section 2). */
const PROXY_HEADER_TIMEOUT_MS = 5_000;
// Fact: a handshake takes 1 to 2 ms of CPU time, and node accepts one connection in each turn of the event loop. So
// handshakes that begin while the kernel's queue is full delay every connection at its end: 2,300 handshakes delayed a
// new connection by 4.3 s. Choice: a few handshakes begin in a turn, and one in 10 ms while connections arrive.
// Addresses take turns, and every other handshake is the newest of its address. Effect: a connection waits for the
// acceptance of those before it, 0.1 ms each, and for a few handshakes.
const HANDSHAKES_A_TURN = 4;
const HANDSHAKE_INTERVAL_MS = 10;

export interface ArrivalHandlers<T> {
  /** Returns the context of a connection that arrives now. */
  readonly context: () => T;
  /** `reason` is one of HANDSHAKE_FAILURES. `address` is the client's, or the balancer's if it sent no header. */
  readonly connectionFailure: (reason: string, address: string) => void;
}

export class Arrivals<T> {
  readonly #limits: ArrivalLimits;
  readonly #handlers: ArrivalHandlers<T>;
  readonly #clock: Clock;
  readonly #begin: (arrival: Arrival<T>) => void;
  readonly #awaitsHello: boolean;
  readonly #byEnds = new Map<string, Arrival<T>>();
  /** Oldest first, without those that are being closed. */
  readonly #places = new Set<Arrival<T>>();
  readonly #handshakeTurns: Turns;
  #arrivedLately = false;
  #handshakesMs = 0;

  /** `begin` is called with each arrival that may go on; in TLS, once the client has sent its first bytes. */
  constructor(
    limits: ArrivalLimits,
    handlers: ArrivalHandlers<T>,
    clock: Clock,
    awaitsHello: boolean,
    begin: (arrival: Arrival<T>) => void,
  ) {
    this.#limits = limits;
    this.#handlers = handlers;
    this.#clock = clock;
    this.#awaitsHello = awaitsHello;
    this.#begin = begin;
    this.#handshakeTurns = new Turns(clock, () => this.#handshakesNow(), 1, true);
  }

  /** Returns the arrival of a TCP connection or of the TLS connection above it. */
  of(socket: Socket): Arrival<T> | undefined {
    return this.#byEnds.get(endsOf(socket));
  }

  destroy(): void {
    for (const { tcp, connection } of this.#byEnds.values()) (connection?.socket ?? tcp).destroy();
  }

  /** Closes connections that have sent nothing. Called while the server is stopping. */
  endSilent(): void {
    for (const { phase, tcp } of this.#byEnds.values()) if (phase === 'header' || phase === 'hello') tcp.destroy();
  }

  check(nowMs: number): void {
    for (const arrival of overLimit(this.#places, this.#limits, nowMs)) this.#evict(arrival);
    for (const arrival of this.#byEnds.values()) {
      const waitedMs = nowMs - arrival.sinceMs;
      if (arrival.phase === 'header' && waitedMs >= PROXY_HEADER_TIMEOUT_MS) this.#fail(arrival, 'proxy_header');
      if (arrival.phase === 'hello' && waitedMs >= this.#limits.handshakeTimeoutMs) this.#fail(arrival, 'timeout');
    }
  }

  arrive(tcp: Socket): void {
    tcp.on('error', () => undefined); // A 'close' event follows.
    this.#arrivedLately = true;
    const { remoteAddress: address } = tcp;
    const { proxyFrom } = this.#limits;
    if (address === undefined) return void tcp.destroy();
    if (proxyFrom?.check(address, tcp.remoteFamily === 'IPv6' ? 'ipv6' : 'ipv4') === false) {
      this.#handlers.connectionFailure('proxy_source', address);
      return void tcp.destroy();
    }
    const arrival = new Arrival(tcp, address, this.#handlers.context(), this.#clock.ms());
    this.#byEnds.set(arrival.ends, arrival);
    tcp.once('close', () => this.#left(arrival));
    this.#enter(arrival);
    if (tcp.destroyed) return;
    if (proxyFrom === undefined) return this.#goOn(arrival);
    arrival.phase = 'header';
    takeProxyHeader(tcp, (header) => {
      if (header === undefined) return this.#fail(arrival, 'proxy_header');
      arrival.address = header.address ?? arrival.address;
      arrival.sinceMs = this.#clock.ms();
      arrival.phase = 'hello';
      this.#goOn(arrival);
    });
  }

  #enter(arrival: Arrival<T>): void {
    this.#places.add(arrival);
    if (this.#places.size > this.#limits.connectionsMax)
      this.#evict(victimOf(this.#places, arrival, this.#limits, arrival.sinceMs));
  }

  #left(arrival: Arrival<T>): void {
    const { ends, connection, phase, failure, address } = arrival;
    this.#places.delete(arrival);
    this.#byEnds.delete(ends);
    // A balancer that closes before its header only checked that the port is open.
    if (connection === undefined && (phase !== 'header' || failure !== undefined))
      this.#handlers.connectionFailure(failure ?? 'reset', address);
  }

  /** A handshake begins once the client has sent its first bytes, in its address's turn. */
  #goOn(arrival: Arrival<T>): void {
    const { tcp } = arrival;
    if (!this.#awaitsHello) return this.#begin(arrival);
    let helloBytes = 0;
    const onReadable = (): void => {
      // The client ended its side, perhaps while its handshake waited for a turn.
      if (tcp.readableLength === helloBytes) return void tcp.destroy();
      const isQueued = helloBytes > 0;
      helloBytes = tcp.readableLength;
      if (isQueued) return;
      this.#handshakeTurns.later(arrival.address, () => {
        if (tcp.destroyed) return;
        tcp.off('readable', onReadable);
        arrival.phase = 'handshake';
        this.#begin(arrival);
      });
    };
    tcp.on('readable', onReadable);
  }

  /** Returns the number of handshakes that may begin in this turn. */
  #handshakesNow(): number {
    const nowMs = this.#clock.ms();
    const begins = !this.#arrivedLately || nowMs - this.#handshakesMs >= HANDSHAKE_INTERVAL_MS;
    const count = !begins ? 0 : this.#arrivedLately ? 1 : HANDSHAKES_A_TURN;
    this.#arrivedLately = false;
    if (begins) this.#handshakesMs = nowMs;
    return count;
  }

  #evict(arrival: Arrival<T>): void {
    this.#places.delete(arrival);
    const { connection, address } = arrival;
    if (connection === undefined) return this.#fail(arrival, 'limit');
    this.#handlers.connectionFailure('limit', address);
    connection.evict();
  }

  #fail(arrival: Arrival<T>, reason: 'limit' | 'timeout' | 'proxy_header'): void {
    arrival.failure ??= reason;
    arrival.tcp.destroy();
  }
}
