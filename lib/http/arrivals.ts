// The TCP connections of a server, until node:http or the fast path has them: the balancer's header, a fair share of
// the CPU time for handshakes, and room for each.
import type { BlockList, Socket } from 'node:net';
import type { Clock } from '../process/clock.ts';
import { ConnectionRoom, type RoomLimits } from './connection-room.ts';
import type { Connection } from './connection.ts';
import { takeProxyHeader } from './proxy-header.ts';
import { Turns } from './turns.ts';

/** A TCP connection. Its TLS connection has the same addresses and ports on both ends. */
export interface Arrival<T> {
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

export interface ArrivalLimits extends RoomLimits {
  readonly handshakeTimeoutMs: number;
  /**
   * Addresses of the load balancers. Only their connections are accepted, and each must begin with a PROXY protocol
   * header. `undefined` if clients connect directly.
   */
  readonly proxyFrom: BlockList | undefined;
}

export interface ArrivalHandlers<T> {
  readonly context: () => T;
  readonly producerOf: (context: T) => string | undefined;
  /** `reason` is one of HANDSHAKE_FAILURES. `address` is the client's, or the balancer's if it sent no header. */
  readonly connectionFailure: (reason: string, address: string) => void;
}

/** Time limit for a balancer's header, long enough for a retransmission (doc/proxy-protocol.txt, section 2). */
const PROXY_HEADER_TIMEOUT_MS = 5_000;
// Fact: a handshake takes 1 to 2 ms of CPU time, so a storm of them delays everything else. Choice: a few begin in
// each turn of the event loop, addresses take turns, and every other handshake is the newest of its address. Effect: a
// storm from one address delays a handshake from another one by one turn (test/http/turns.test.ts).
const HANDSHAKES_A_TURN = 4;

export const endsOf = ({ remoteAddress, remotePort, localAddress, localPort }: Socket): string =>
  `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;

export class Arrivals<T> {
  readonly #limits: ArrivalLimits;
  readonly #handlers: ArrivalHandlers<T>;
  readonly #clock: Clock;
  readonly #begin: (arrival: Arrival<T>) => void;
  readonly #awaitsHello: boolean;
  readonly #byEnds = new Map<string, Arrival<T>>();
  readonly #room: ConnectionRoom<Arrival<T>>;
  readonly #handshakeTurns: Turns;

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
    this.#handshakeTurns = new Turns(clock, HANDSHAKES_A_TURN, 1, true);
    this.#room = new ConnectionRoom(limits, {
      // If the server has sent bytes, a whole ClientHello has arrived.
      hasClientHello: ({ tcp }) => tcp.bytesWritten > 0,
      isIdle: ({ connection }) => connection?.isIdle === true,
      producerOf: ({ context }) => handlers.producerOf(context),
    });
  }

  /** Returns the arrival of a TCP connection or of the TLS connection above it. */
  of(socket: Socket): Arrival<T> | undefined {
    return this.#byEnds.get(endsOf(socket));
  }

  opened(arrival: Arrival<T>, connection: Connection<T>): void {
    arrival.phase = 'open';
    arrival.connection = connection;
    this.#room.handshakeDone(arrival, !connection.hasOneAnswer);
  }

  destroy(): void {
    for (const { tcp, connection } of this.#byEnds.values()) (connection ?? tcp).destroy();
  }

  /** Closes connections without a handshake since `graceMs`. Called while the server is stopping. */
  endSilent(nowMs: number, graceMs: number): void {
    for (const { phase, sinceMs, tcp } of this.#byEnds.values())
      if ((phase === 'header' || phase === 'hello') && nowMs - sinceMs >= graceMs) tcp.destroy();
  }

  check(nowMs: number): void {
    for (const arrival of this.#room.over(nowMs)) this.#evict(arrival);
    for (const arrival of this.#byEnds.values()) {
      const waitedMs = nowMs - arrival.sinceMs;
      if (arrival.phase === 'header' && waitedMs >= PROXY_HEADER_TIMEOUT_MS) this.#fail(arrival, 'proxy_header');
      if (arrival.phase === 'hello' && waitedMs >= this.#limits.handshakeTimeoutMs) this.#fail(arrival, 'timeout');
    }
  }

  arrive(tcp: Socket): void {
    tcp.on('error', () => undefined); // A 'close' event follows.
    const { remoteAddress: address } = tcp;
    const { proxyFrom } = this.#limits;
    if (address === undefined) return void tcp.destroy();
    if (proxyFrom?.check(address, tcp.remoteFamily === 'IPv6' ? 'ipv6' : 'ipv4') === false) {
      this.#handlers.connectionFailure('proxy_source', address);
      return void tcp.destroy();
    }
    const sinceMs = this.#clock.ms();
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
    this.#byEnds.set(arrival.ends, arrival);
    tcp.once('close', () => this.#left(arrival));
    this.#evict(this.#room.enter(arrival, address, sinceMs));
    if (tcp.destroyed) return;
    if (proxyFrom !== undefined) this.#readProxyHeader(arrival);
    else this.#goOn(arrival);
  }

  #left(arrival: Arrival<T>): void {
    const { ends, connection, phase, failure, address } = arrival;
    this.#room.leave(arrival);
    this.#byEnds.delete(ends);
    // A balancer that closes before its header only checked that the port is open.
    if (connection === undefined && (phase !== 'header' || failure !== undefined))
      this.#handlers.connectionFailure(failure ?? 'reset', address);
  }

  #readProxyHeader(arrival: Arrival<T>): void {
    takeProxyHeader(arrival.tcp, (header) => {
      if (header === undefined) return this.#fail(arrival, 'proxy_header');
      const nowMs = this.#clock.ms();
      arrival.address = header.address ?? arrival.address;
      arrival.sinceMs = nowMs;
      arrival.phase = 'hello';
      this.#room.leave(arrival);
      this.#evict(this.#room.enter(arrival, arrival.address, nowMs));
      this.#goOn(arrival);
    });
  }

  /** A handshake begins once the client has sent its first bytes, in its address's turn. */
  #goOn(arrival: Arrival<T>): void {
    const { tcp } = arrival;
    if (!this.#awaitsHello) return this.#begin(arrival);
    let helloBytes = 0;
    const begin = (): void => {
      if (tcp.destroyed) return;
      tcp.off('readable', onReadable);
      arrival.phase = 'handshake';
      this.#begin(arrival);
    };
    const onReadable = (): void => {
      // The client ended its side, perhaps while its handshake waited for a turn.
      if (tcp.readableLength === helloBytes) return void tcp.destroy();
      const isQueued = helloBytes > 0;
      helloBytes = tcp.readableLength;
      if (isQueued) return;
      if (this.#handshakeTurns.take(1)) begin();
      else this.#handshakeTurns.later(arrival.address, begin);
    };
    tcp.on('readable', onReadable);
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
}
