// One TLS connection. It is the sole owner of the socket: nothing else reads from it, writes to it or ends it.
//
// What its states are side.ts says: plain → handing over → node; from each of them → closing → closed.
//
// Invariant: a connection is ended in one place, behind its last answer, or destroyed.
import type { TLSSocket } from 'node:tls';
import type { Clock } from '../process/clock.ts';
import { assert } from './assert.ts';
import { clientCertificateOf, type ClientCertificate } from './client-certificate.ts';
import { IdleWatch, PIECE_CHARACTERS, type TimeLimits } from './limits.ts';
import { linger } from './linger.ts';
import type { HandOver } from './node/hand-over.ts';
import { PieceReader } from './piece-reader.ts';
import { PieceWriter } from './piece-writer.ts';
import { PlainSide } from './plain/side.ts';
import type { HttpRequest, ProtocolFault } from './request.ts';
import { NEXT_STATES, type ConnectionState, type Side, type Wire } from './side.ts';

/** The server that a connection belongs to. */
export interface ConnectionHost<T> {
  /** The header lines that say how long a connection may idle. */
  readonly keepAlive: string;
  readonly clock: Clock;
  readonly handOver: HandOver;
  /** Plain requests are read by our own reader. */
  readonly readsPlain: boolean;
  /** Calls `flush` at the end of this turn of the event loop. */
  wake(connection: Connection<T>): void;
  readonly request: (connection: Connection<T>, request: HttpRequest) => void;
  /** See Wire. */
  mayReadOn(): boolean;
  /** The whole response to a request whose head could not be read. */
  readonly protocolFault: (fault: ProtocolFault, connection: Connection<T>) => string;
  /** A request of this producer's has been seen on it. False: it holds as many connections as it may. */
  known(connection: Connection<T>, producer: string): boolean;
  /** So many bytes of answers wait for the client of this connection now. */
  waits(connection: Connection<T>, holder: string, bytes: number): void;
  closed(connection: Connection<T>): void;
}

/** `T` is what the application keeps with a connection. */
export class Connection<T> implements Wire {
  /** Undefined where the client sent none. */
  readonly clientCertificate: ClientCertificate | undefined;
  /** The client's, without its port. */
  readonly address: string;
  readonly context: T;
  readonly clock: Clock;
  readonly #host: ConnectionHost<T>;
  readonly #socket: TLSSocket;
  #state: ConnectionState = 'plain';
  #side: Side;
  #holder = '';
  #clientEnded = false;
  #awake = false;
  /** Its end waits for what the client still sends. */
  #lingers = false;
  #retiring = false;
  readonly #reader: PieceReader;
  readonly #pieces: PieceWriter;
  /** Who waits until more may be written. */
  #written: (() => void) | undefined;
  readonly #quiet: IdleWatch;
  /** When a stopping server first saw nothing going on here. */
  #idleSinceMs: number | undefined;

  constructor(socket: TLSSocket, host: ConnectionHost<T>, address: string, context: T) {
    this.#socket = socket;
    this.address = address;
    this.context = context;
    this.clock = host.clock;
    this.#quiet = new IdleWatch(host.clock.ms());
    this.#pieces = new PieceWriter(socket);
    this.#host = host;
    this.#side = new PlainSide(this);
    this.clientCertificate = clientCertificateOf(socket);
    this.#reader = new PieceReader(socket, host.clock, this.#onData);
    socket.on('end', this.#onEnd);
    socket.on('drain', this.#onDrain);
    socket.on('close', this.#onClose);
    if (host.readsPlain) return;
    this.#become('handing over');
    this.handOver(Buffer.alloc(0));
  }

  /** The client showed a certificate that OpenSSL accepted. */
  get certified(): boolean {
    return this.clientCertificate !== undefined && this.clientCertificate.fault === undefined;
  }

  /** The producer that it is known as; '' for a stranger. */
  get holder(): string {
    return this.#holder;
  }

  /** A stranger's request was this producer's. False: connections are short, and it holds as many as it may. */
  know(producer: string): boolean {
    assert(this.#holder === '', 'a connection becomes known once');
    if (this.#host.known(this, producer)) this.#holder = producer;
    return this.#holder !== '';
  }

  /** No request is under way on it, and no answer. */
  get idle(): boolean {
    return !this.#busy;
  }

  /** Another connection takes its place. */
  giveWay(): void {
    if (this.#holder !== '' && this.idle && this.#state !== 'closing') this.end(false);
    else this.#socket.destroy();
  }

  /** Ends behind the answers that are owed now. Requests that have not begun are dropped; their client sends them again. */
  retire(): void {
    this.#retiring = true;
    this.wake();
  }

  get retiring(): boolean {
    return this.#retiring;
  }

  /** Closes immediately, even if answers are owed. */
  destroy(): void {
    this.#socket.destroy();
  }

  get keepAlive(): string {
    return this.#host.keepAlive;
  }

  get state(): ConnectionState {
    return this.#state;
  }

  get writable(): boolean {
    return this.#pieces.empty && !this.#socket.writableNeedDrain;
  }

  wake(): void {
    if (this.#awake) return;
    this.#awake = true;
    this.#host.wake(this);
  }

  request(request: HttpRequest): void {
    assert(this.#state === 'plain' || this.#state === 'node', 'requests come while the connection is read');
    this.#idleSinceMs = undefined;
    this.#reader.startAnew();
    this.#host.request(this, request);
  }

  mayReadOn(): boolean {
    return this.#host.mayReadOn();
  }

  write(text: string | Buffer, encoding: BufferEncoding, done?: () => void): void {
    if (text.length <= 2 * PIECE_CHARACTERS && this.#pieces.empty) {
      if (this.#socket.writable) this.#socket.write(text, encoding);
    } else this.#pieces.write(text, encoding);
    const { writable } = this;
    if (!writable) this.#host.waits(this, this.#holder, this.#heldBytes);
    if (done === undefined) return;
    if (writable) done();
    else this.#written = done;
  }

  pause(): void {
    this.#reader.pause();
  }

  resume(): void {
    this.#reader.resume();
  }

  stopReading(unread: boolean): void {
    this.#lingers ||= unread;
    if (this.#state === 'closing' || this.#state === 'closed') return;
    this.#become('closing');
    this.#side.stop();
    this.#reader.resume();
  }

  end(unread: boolean): void {
    this.stopReading(unread);
    assert(this.#state === 'closing' || this.#state === 'closed', 'nothing is read behind the end');
    if (!this.#pieces.empty) this.#written = () => this.end(false);
    else if (this.#lingers) linger(this.#socket, this.clock);
    else this.#socket.destroySoon();
  }

  sayLast(fault: ProtocolFault): void {
    this.stopReading(true);
    this.write(this.#host.protocolFault(fault, this), 'latin1');
    this.end(true);
  }

  abort(): void {
    if (!this.#socket.writableEnded) this.#socket.destroy();
  }

  prepareHandOver(): void {
    this.#become('handing over');
    this.wake();
  }

  handOver(rest: Buffer): void {
    assert(!this.#side.busy, 'no answer is owed when the connection is handed over');
    this.#become('node');
    this.#side = this.#host.handOver.adopt(this, this.#side.requests);
    this.#side.feed(rest);
    if (this.#clientEnded) this.#side.feedEnd();
  }

  /** At the end of a turn of the event loop in which something has changed. */
  flush(): void {
    assert(this.#awake, 'a connection is flushed once for each time that it was awake');
    this.#awake = false;
    if (this.#state !== 'closed') this.#side.flush();
  }

  /** Ends what has taken too long. */
  check(nowMs: number, limits: TimeLimits): void {
    const unreadBytes = this.#unreadBytes;
    const overdue = this.#quiet.overdue(this.#side, unreadBytes, this.certified, nowMs, limits);
    if (overdue === undefined) return;
    if (unreadBytes > 0) {
      this.#socket.destroy();
      return;
    }
    if (this.#state === 'closing') return; // linger keeps the time of what has been written.
    if (overdue === 'head') this.sayLast('timeout');
    else if (overdue === 'request') this.end(false);
    else if (!this.#side.late()) this.#socket.destroy();
  }

  /** While the server stops: ends once nothing has gone on here for `graceMs`, and nothing more has arrived. */
  endIdle(nowMs: number, graceMs: number): void {
    if (this.#busy || this.#state === 'closing') return;
    this.#idleSinceMs ??= nowMs;
    if (nowMs - this.#idleSinceMs < graceMs) return;
    // A look at what has arrived comes between this timer and the check phase.
    this.clock.turnEnd(() => {
      if (this.#idleSinceMs !== undefined && !this.#busy) this.end(false);
    });
  }

  #become(next: ConnectionState): void {
    assert(NEXT_STATES[this.#state].includes(next), `a connection that is ${this.#state} may become ${next}`);
    this.#state = next;
  }

  get #busy(): boolean {
    return this.#side.busy || this.#socket.writableLength > 0 || !this.#pieces.empty;
  }

  get #unreadBytes(): number {
    return this.#socket.writableLength + this.#pieces.unwritten + this.#side.unwrittenBytes;
  }

  /** How much memory its unread answers take, in bytes. */
  get #heldBytes(): number {
    return this.#socket.writableLength + this.#pieces.held + this.#side.unwrittenBytes;
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#state !== 'closing' && this.#state !== 'closed') this.#side.feed(chunk);
  };

  readonly #onEnd = (): void => {
    this.#clientEnded = true;
    if (this.#state !== 'closing' && this.#state !== 'closed') this.#side.feedEnd();
  };

  readonly #onDrain = (): void => {
    this.#pieces.goOn();
    const { writable } = this;
    this.#host.waits(this, this.#holder, writable ? 0 : this.#heldBytes);
    if (!writable) return;
    const written = this.#written;
    this.#written = undefined;
    written?.();
    this.wake();
  };

  readonly #onClose = (): void => {
    this.#become('closed');
    this.#pieces.clear();
    this.#side.close();
    this.#host.waits(this, this.#holder, 0);
    this.#host.closed(this);
  };
}
