// One connection of a client: who the client is, what reads its requests, and how it closes.
//
// Invariants: nothing is written after an answer that closes the connection, and nothing is read. A client that is
// still sending gets the time to read that answer.
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { Clock } from '../process/clock.ts';
import { clientCertificateOf, type ClientCertificate } from './client-certificate.ts';
import { FastPath } from './fast-path.ts';
import { NodePath } from './node-path.ts';
import type { Path, PathOwner } from './path.ts';
import type { HttpRequest, ProtocolFault } from './request.ts';
import { CLOSING, type HeadTail } from './respond.ts';
import type { Turns } from './turns.ts';

export interface ConnectionHandlers<T> {
  /** Must call `respond` of the request once, unless the client is gone. */
  readonly request: (connection: Connection<T>, request: HttpRequest) => void;
  /** Returns the complete response to a request that could not be read. */
  readonly protocolFault: (fault: ProtocolFault, connection: Connection<T>) => string;
  /** The producer that has sent a request on the connection; `undefined` if none has. */
  readonly producerOf: (context: T) => string | undefined;
  readonly closed?: ((connection: Connection<T>) => void) | undefined;
  /** Called with the failure of the code that handles a connection, which is then closed. */
  readonly bug: (cause: unknown, connection: Connection<T>) => void;
}

/** Times for the first or next request to begin. node:http limits the rest of a request. */
export interface IdleLimits {
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly idleTimeoutMs: number;
}

export interface ConnectionHost<T> {
  readonly clock: Clock;
  readonly turns: Turns;
  readonly keepAlive: HeadTail;
  readonly handlers: ConnectionHandlers<T>;
  /** Node's own listener for new connections. */
  readonly adopt: (socket: Socket) => void;
  readonly usesFastPath: boolean;
}

/** The time for which input is discarded after our last byte. */
const LINGER_MS = 1_000;
/** Time limit for the client to read the answers written so far. */
const LAST_WRITE_MS = 10_000;
/** Added to the announced idle timeout, as node does, because a request may already be on its way. */
const IDLE_SLACK_MS = 1_000;

export class Connection<T> implements PathOwner {
  readonly socket: Socket;
  /** The TCP connection below a TLS connection; otherwise the same as `socket`. */
  readonly tcp: Socket;
  readonly clientCertificate: ClientCertificate | undefined;
  readonly address: string;
  readonly context: T;
  readonly clock: Clock;
  readonly turns: Turns;
  isClosing = false;
  isRetiring = false;
  readonly #host: ConnectionHost<T>;
  #path: Path;
  #nodePath: NodePath | undefined;
  #requests = 0;
  #isAwake = false;
  /** The state at the last check that found progress, and its time. */
  #checkedRequests = 0;
  #checkedBytes = 0;
  #quietSinceMs: number;
  #idleSinceMs: number | undefined;

  constructor(socket: Socket, tcp: Socket, host: ConnectionHost<T>, address: string, context: T) {
    this.socket = socket;
    this.tcp = tcp;
    this.address = address;
    this.context = context;
    this.clock = host.clock;
    this.turns = host.turns;
    this.#host = host;
    this.#quietSinceMs = host.clock.ms();
    this.clientCertificate = socket instanceof TLSSocket ? clientCertificateOf(socket) : undefined;
    socket.on('error', ignore);
    socket.on('drain', () => this.wake());
    socket.on('close', () => host.handlers.closed?.(this));
    this.#path = new FastPath(this, host.usesFastPath, (rest, hasEnded) => this.#leaveFastPath(rest, hasEnded));
  }

  /** True if an accepted authority signed the client's certificate. */
  get isAuthenticated(): boolean {
    return this.clientCertificate !== undefined && this.clientCertificate.fault === undefined;
  }
  get hasOneAnswer(): boolean {
    return this.tcp !== this.socket && !this.isAuthenticated;
  }
  get holder(): string {
    return this.#host.handlers.producerOf(this.context) ?? (this.isAuthenticated ? 'authenticated' : '');
  }
  get isIdle(): boolean {
    return !this.isClosing && !this.#path.isBusy && this.socket.writableLength === 0;
  }
  /** Bytes of requests that are not handled yet and of answers that the client has not read. */
  get heldBytes(): number {
    return this.#path.heldBytes + this.socket.readableLength + this.socket.writableLength;
  }
  /** `undefined` if node:http has not seen the connection. */
  get nodePath(): NodePath | undefined {
    return this.#nodePath;
  }

  keepAliveTail(): string {
    return this.#host.keepAlive.at(this.clock.epochMs());
  }
  closingTail(): string {
    return CLOSING.at(this.clock.epochMs());
  }

  handle(request: HttpRequest): void {
    this.#requests += 1;
    this.#idleSinceMs = undefined;
    this.#host.handlers.request(this, request);
  }

  wake(): void {
    if (this.#isAwake) return;
    this.#isAwake = true;
    this.turns.atEnd(this.#flush);
  }

  guard(run: () => void): void {
    try {
      run();
    } catch (cause) {
      this.socket.destroy();
      this.#host.handlers.bug(cause, this);
    }
  }

  finish(text: string, unread: boolean, parts: readonly Buffer[] = []): void {
    if (this.isClosing) return;
    this.isClosing = true;
    this.#path.stop();
    const { socket } = this;
    if (socket.destroyed) return;
    if (text !== '') socket.write(text, 'latin1');
    for (const part of parts) socket.write(part);
    let timer = this.clock.after(LAST_WRITE_MS, () => socket.destroy());
    socket.once('close', () => timer.close());
    // Closing while the client is still sending would reset the connection, and the client may see the reset before it
    // reads the answer (RFC 9112, section 9.6).
    socket.end(() => {
      timer.close();
      if (unread) timer = this.clock.after(LINGER_MS, () => socket.destroy());
      else socket.destroy();
    });
    socket.on('data', ignore);
    socket.resume();
  }

  finishWithFault(fault: ProtocolFault): void {
    this.finish(this.#host.handlers.protocolFault(fault, this), true);
  }

  /** Closes the connection after the answers to the requests that are being handled. Drops all later requests. */
  retire(): void {
    this.isRetiring = true;
    this.wake();
  }

  /** Closes the connection because another one needs its place. */
  evict(): void {
    if (this.isIdle && this.#host.handlers.producerOf(this.context) !== undefined) this.finish('', false);
    else this.socket.destroy();
  }

  destroy(): void {
    this.socket.destroy();
  }

  /** Closes the connection if it is quiet for too long. Called a few times a second. */
  check(nowMs: number, limits: IdleLimits): void {
    if (this.isClosing) return;
    this.guard(() => this.#path.check(nowMs));
    const { writableLength, bytesWritten } = this.socket;
    if (this.#requests !== this.#checkedRequests || bytesWritten !== this.#checkedBytes || this.#isWaitedFor) {
      this.#checkedRequests = this.#requests;
      this.#checkedBytes = bytesWritten;
      this.#quietSinceMs = nowMs;
      return;
    }
    const quietMs = nowMs - this.#quietSinceMs;
    const isStale = quietMs >= limits.idleTimeoutMs + IDLE_SLACK_MS;
    if (writableLength > 0) {
      if (isStale) this.socket.destroy();
      return;
    }
    // Node's time limits for a request end sooner.
    if (this.#path.isArriving) {
      if (quietMs >= limits.requestTimeoutMs + limits.idleTimeoutMs + IDLE_SLACK_MS) this.socket.destroy();
      return;
    }
    // A stranger has less time for its first request. It gets no answer, because it could mistake that answer for the
    // response to the request that it sends next.
    const isLateStranger = this.#requests === 0 && !this.isAuthenticated && quietMs >= limits.headersTimeoutMs;
    if (isStale || isLateStranger) this.finish('', false);
  }

  /** Closes the connection if it has been idle for `graceMs`. Called while the server is stopping. */
  endIdle(nowMs: number, graceMs: number): void {
    if (!this.isIdle) return;
    this.#idleSinceMs ??= nowMs;
    if (nowMs - this.#idleSinceMs < graceMs) return;
    // A request may still arrive in this turn, so check again at its end.
    this.clock.turnEnd(() => {
      if (this.#idleSinceMs !== undefined && this.isIdle) this.finish('', false);
    });
  }

  /** True if the client waits for an answer that has not been made. */
  get #isWaitedFor(): boolean {
    return this.#path.owesAnswer && this.socket.writableLength === 0;
  }

  readonly #flush = (): void => {
    this.#isAwake = false;
    if (!this.isClosing && !this.socket.destroyed) this.guard(() => this.#path.flush());
  };

  #leaveFastPath(rest: Buffer, hasEnded: boolean): void {
    const path = new NodePath(this);
    this.#path = path;
    this.#nodePath = path;
    path.begin(() => this.#host.adopt(this.socket), rest, hasEnded);
  }
}

const ignore = (): void => undefined;
