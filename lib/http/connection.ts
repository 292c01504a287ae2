// One connection of a client: who the client is, what reads its requests, and how it closes.
//
// Invariants: nothing is written after an answer that closes the connection, and nothing is read. A client that is
// still sending gets the time to read that answer.
import type { X509Certificate } from 'node:crypto';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { Clock } from '../process/clock.ts';
import type { Place, ServerLimits } from './connection-room.ts';
import type { HttpRequest, ProtocolFault } from './request.ts';
import { CLOSING, type HeadTail } from './respond.ts';
import type { Turns } from './turns.ts';

export interface ClientCertificate {
  readonly certificate: X509Certificate;
  /** OpenSSL's reason for rejecting the certificate; `undefined` if it was accepted. */
  readonly fault: string | undefined;
}

export interface ServerHandlers<T> {
  /** Returns the context of a connection that arrives now. */
  readonly context: () => T;
  /** Must call `respond` of the request once, unless the client is gone. */
  readonly request: (connection: Connection<T>, request: HttpRequest) => void;
  /** True while the server is stopping: answers then close their connections. */
  readonly draining: () => boolean;
  /** Returns the complete response to a request that could not be read. */
  readonly protocolFault: (fault: ProtocolFault, connection: Connection<T>) => string;
  /** The producer that has sent a request on the connection; `undefined` if none has. */
  readonly producerOf: (context: T) => string | undefined;
  readonly closed?: ((connection: Connection<T>) => void) | undefined;
  /** Called with the failure of the code that handles a connection, which is then closed. */
  readonly bug: (cause: unknown, connection: Connection<T>) => void;
  /** `reason` is one of HANDSHAKE_FAILURES. `address` is the client's, or the balancer's if it sent no header. */
  readonly connectionFailure: (reason: string, address: string) => void;
  /** Returns the complete response to a request in plain HTTP. */
  readonly plainHttp: () => string;
}

/** The server, as its connections see it. */
export interface Host<T> {
  readonly clock: Clock;
  readonly turns: Turns;
  readonly keepAlive: HeadTail;
  readonly limits: ServerLimits;
  readonly handlers: ServerHandlers<T>;
}

/** The part that reads requests: the fast path, then node:http. */
export interface Reader {
  /** True if a request waits for its answer. */
  readonly owesAnswer: boolean;
  /** True if part of a request has arrived. */
  readonly isArriving: boolean;
  /** Bytes that are held outside of the socket's streams. */
  readonly heldBytes: number;
  /** Called a few times a second. */
  check?(nowMs: number): void;
  /** Called at the end of a turn in which the connection was woken. */
  flush(): void;
  /** Stops reading, because the last answer has been made. */
  stop(): void;
}

/** The time for which input is discarded after our last byte. */
const LINGER_MS = 1_000;
/** Time limit for the client to read the answers written so far. */
const LAST_WRITE_MS = 10_000;
/** Added to the announced idle timeout, as node does, because a request may already be on its way. */
const IDLE_SLACK_MS = 1_000;
/** Memory of a piece of input. It is a separate Buffer, and the client chooses its length: one for each TLS record. */
const PIECE_BYTES = 256;
/** Length of a TLS record without its content. */
const RECORD_BYTES = 22;

export class Connection<T> implements Place {
  readonly tcp: Socket;
  /** The TLS connection above `tcp`; the same as `tcp` in plain HTTP, and until the handshake is done. */
  socket: Socket;
  /** The client's address, or the balancer's until its header has been read. */
  address: string;
  readonly context: T;
  readonly host: Host<T>;
  /** What the server waits for. */
  phase: 'header' | 'hello' | 'turn' | 'handshake' | 'open' = 'hello';
  /** When the client's latest progress was; `Infinity` while it waits for the server's turn. */
  sinceMs: number;
  /** Why there will be no TLS connection. */
  failure: string | undefined;
  clientCertificate: ClientCertificate | undefined;
  /** Set when the connection is open. */
  declare reader: Reader;
  /** True once the last answer has been made. */
  isClosing = false;
  /** True if the connection closes after the answers that it owes. No further request may be handled. */
  isRetiring = false;
  #requests = 0;
  #isAwake = false;
  /** The sum of requests and bytes written when the last check found progress. */
  #progress = 0;
  /** When a closing connection is destroyed. */
  #destroyAtMs = 0;
  /** Bytes received up to the last call of `heldBytes`, and the memory for each byte that arrived before that call. */
  #seenBytes = 0;
  #seenTcpBytes = 0;
  #memoryPerByte = 1;

  constructor(tcp: Socket, address: string, host: Host<T>) {
    this.tcp = tcp;
    this.socket = tcp;
    this.address = address;
    this.context = host.handlers.context();
    this.host = host;
    this.sinceMs = host.clock.ms();
    tcp.on('error', ignore); // A 'close' event follows.
  }

  /** Called when requests may arrive, with the TLS connection if there is one. */
  open(socket: Socket): void {
    this.socket = socket;
    this.phase = 'open';
    this.sinceMs = this.host.clock.ms();
    this.clientCertificate = socket instanceof TLSSocket ? clientCertificateOf(socket) : undefined;
    socket.on('error', ignore);
    socket.on('drain', () => this.wake());
    socket.on('close', () => this.host.handlers.closed?.(this));
  }

  get hasClientHello(): boolean {
    return this.tcp.bytesWritten > 0; // The server answers a whole ClientHello.
  }
  get isOpen(): boolean {
    return this.phase === 'open';
  }
  /** True if an accepted authority signed the client's certificate. */
  get isAuthenticated(): boolean {
    return this.clientCertificate !== undefined && this.clientCertificate.fault === undefined;
  }
  /** True if the first answer closes the connection, because the client is not authenticated. */
  get hasOneAnswer(): boolean {
    return this.tcp !== this.socket && !this.isAuthenticated;
  }
  get isGone(): boolean {
    return this.socket.destroyed;
  }
  get producer(): string | undefined {
    return this.host.handlers.producerOf(this.context);
  }
  /** The producer, for a fair share of each turn and of the memory; empty for an unauthenticated client. */
  get holder(): string {
    return this.producer ?? (this.isAuthenticated ? 'authenticated' : '');
  }
  get isIdle(): boolean {
    if (!this.isOpen || this.isClosing || this.socket.writableLength > 0) return false;
    return !this.reader.owesAnswer && !this.reader.isArriving;
  }

  /** Returns the memory of requests that are not handled yet and of answers that the client has not read. */
  heldBytes(): number {
    const { readableLength, writableLength, bytesRead } = this.socket;
    const { bytesRead: tcpBytesRead } = this.tcp;
    const bytes = bytesRead - this.#seenBytes;
    if (bytes > 0) {
      const records = (tcpBytesRead - this.#seenTcpBytes - bytes) / RECORD_BYTES;
      this.#memoryPerByte = 1 + PIECE_BYTES * Math.min(1, records / bytes);
      this.#seenBytes = bytesRead;
      this.#seenTcpBytes = tcpBytesRead;
    }
    return this.reader.heldBytes + readableLength * this.#memoryPerByte + writableLength;
  }

  /** True if the connection closes after the next answer. `isLatest`: nothing has arrived after its request. */
  isLastAnswer(isLatest: boolean): boolean {
    // Requests after an answer that closes are dropped, so a stopping server closes only with the latest answer.
    return this.hasOneAnswer || (isLatest && this.host.handlers.draining());
  }

  /** Returns the last lines of an answer's head. */
  tail(isLast: boolean): string {
    return (isLast ? CLOSING : this.host.keepAlive).at(this.host.clock.epochMs());
  }

  handle(request: HttpRequest): void {
    this.#requests += 1;
    this.host.handlers.request(this, request);
  }

  /** Calls the reader's `flush` at the end of this turn. */
  wake(): void {
    if (this.#isAwake) return;
    this.#isAwake = true;
    this.host.turns.atEnd(this.#flush);
  }

  /** Runs `run`. If it throws, the connection is closed and the failure is logged. */
  guard(run: () => void): void {
    try {
      run();
    } catch (cause) {
      this.socket.destroy();
      this.host.handlers.bug(cause, this);
    }
  }

  /** Closes the connection after `text` and `parts`. `unread`: the client may still be sending. */
  finish(text: string, unread: boolean, parts: readonly Buffer[] = []): void {
    if (this.isClosing) return;
    this.isClosing = true;
    this.reader.stop();
    const { socket } = this;
    if (socket.destroyed) return;
    if (text !== '') socket.write(text, 'latin1');
    for (const part of parts) socket.write(part);
    this.#destroyAtMs = this.host.clock.ms() + LAST_WRITE_MS;
    // Closing while the client is still sending would reset the connection, and the client may see the reset before it
    // reads the answer (RFC 9112, section 9.6).
    socket.end(() => {
      if (unread) this.#destroyAtMs = this.host.clock.ms() + LINGER_MS;
      else socket.destroy();
    });
    socket.on('data', ignore);
    socket.resume();
  }

  /** Closes the connection after the answers to the requests that are being handled. Drops all later requests. */
  retire(): void {
    this.isRetiring = true;
    this.wake();
  }

  /** Closes the connection if it is quiet for too long. Called a few times a second. */
  check(nowMs: number): void {
    const { socket, reader } = this;
    const { limits } = this.host;
    if (this.isClosing) {
      if (nowMs >= this.#destroyAtMs) socket.destroy();
      return;
    }
    this.guard(() => reader.check?.(nowMs));
    const isWriting = socket.writableLength > 0;
    const progress = this.#requests + socket.bytesWritten;
    if (progress !== this.#progress || (reader.owesAnswer && !isWriting)) {
      this.#progress = progress;
      this.sinceMs = nowMs;
      return;
    }
    let quietMsMax = limits.idleTimeoutMs + IDLE_SLACK_MS;
    // Node's time limits for a request end sooner.
    if (reader.isArriving && !isWriting) quietMsMax += limits.requestTimeoutMs;
    // A stranger has less time for its first request. It gets no answer, because it could mistake that answer for the
    // response to the request that it sends next.
    else if (this.#requests === 0 && !this.isAuthenticated) quietMsMax = Math.min(quietMsMax, limits.headersTimeoutMs);
    if (nowMs - this.sinceMs < quietMsMax) return;
    if (this.isIdle) this.finish('', false);
    else socket.destroy();
  }

  /** Closes the connection if it is idle and nothing arrives in this turn. */
  endIdle(): void {
    if (!this.isIdle) return;
    this.host.clock.turnEnd(() => {
      if (this.isIdle) this.finish('', false);
    });
  }

  readonly #flush = (): void => {
    this.#isAwake = false;
    if (!this.isClosing && !this.socket.destroyed) this.guard(() => this.reader.flush());
  };
}

const ignore = (): void => undefined;

/**
 * Returns `undefined` if the client sent no certificate. Call this once, right after the handshake: later,
 * `getPeerX509Certificate()` returns the newest certificate, but `authorized` still refers to the first.
 */
function clientCertificateOf(socket: TLSSocket): ClientCertificate | undefined {
  const certificate = socket.getPeerX509Certificate();
  if (certificate === undefined) return undefined;
  return { certificate, fault: socket.authorized ? undefined : String(socket.authorizationError) };
}
