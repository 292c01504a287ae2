// One TLS connection. It is the sole owner of the socket: nobody else reads from it, writes to it or ends it.
//
// What its states are side.ts says: plain → handing over → node; from each of them → closing → closed.
//
// Invariant: a connection is ended in one place, behind its last answer, or destroyed.
import type { X509Certificate } from 'node:crypto';
import type { TLSSocket } from 'node:tls';
import { PIECE_CHARACTERS, whatIsOverdue, type TimeLimits } from './limits.ts';
import type { HandOver } from './node/hand-over.ts';
import { PlainSide } from './plain/side.ts';
import type { HttpRequest, ProtocolFault } from './request.ts';
import type { ConnectionState, Side, Wire } from './side.ts';

/** How long a connection that we close is still read from, so that the client gets to see our last answer. */
const LINGER_MS = 1_000;
/** How long the client may take before that to take the answers that were written. */
const LAST_WRITE_MS = 10_000;

/** The client's certificate in the handshake that opened a connection. */
export interface ClientCertificate {
  readonly certificate: X509Certificate;
  /** Why OpenSSL did not accept it; undefined where it did. */
  readonly fault: string | undefined;
}

/** The server that a connection belongs to. */
export interface ConnectionHost<T> {
  /** The header lines that say how long a connection may idle. */
  readonly keepAlive: string;
  readonly handOver: HandOver;
  /** Plain requests are read by our own reader. */
  readonly readsPlain: boolean;
  /** Calls `flush` at the end of this turn of the event loop. */
  wake(connection: Connection<T>): void;
  request(connection: Connection<T>, request: HttpRequest): void;
  /** See Wire. */
  mayReadOn(): boolean;
  /** The whole response to a request whose head could not be read. */
  protocolFault(fault: ProtocolFault): string;
  /** A producer's request has been seen on it. */
  known(connection: Connection<T>): void;
  closed(connection: Connection<T>): void;
}

/** `T` is what the application keeps with a connection. */
export class Connection<T> implements Wire {
  /**
   * Taken once. The socket's own `getPeerX509Certificate()` gives the certificate of the latest handshake and
   * `authorized` the verdict on the first one, so they must not be asked later. Undefined where the client sent none.
   */
  readonly clientCertificate: ClientCertificate | undefined;
  readonly #host: ConnectionHost<T>;
  readonly #socket: TLSSocket;
  #state: ConnectionState = 'plain';
  #side: Side;
  #attachment: T | undefined;
  #handshakeCounts: boolean;
  #known = false;
  #clientEnded = false;
  #awake = false;
  /** When it ends, what may still come is waited for. */
  #lingers = false;
  /** What leaves in pieces, of the first from `#sent` on, and who waits until more may be written. */
  readonly #sending: (string | Buffer)[] = [];
  #sent = 0;
  #written: (() => void) | undefined;
  /** How much had come and was unread when that was last found to have changed, and when that was. */
  #quietRequests = 0;
  #quietUnread = 0;
  #quietSinceMs = performance.now();
  /** When a stopping server first saw nothing going on here. */
  #idleSinceMs: number | undefined;

  /** `handshakeCounts`: the handshake judged the client by the trust that is in use now. */
  constructor(socket: TLSSocket, host: ConnectionHost<T>, handshakeCounts: boolean) {
    this.#socket = socket;
    this.#host = host;
    this.#handshakeCounts = handshakeCounts;
    this.#side = new PlainSide(this);
    this.clientCertificate = clientCertificateOf(socket);
    socket.on('data', this.#onData);
    socket.on('end', this.#onEnd);
    socket.on('drain', this.#onDrain);
    socket.on('close', this.#onClose);
    socket.on('error', ignore);
    if (host.readsPlain) return;
    this.#state = 'handing over';
    this.handOver(NOTHING);
  }

  get attachment(): T | undefined {
    return this.#attachment;
  }

  /** The client showed a certificate that OpenSSL accepted. */
  get certified(): boolean {
    return this.clientCertificate !== undefined && this.clientCertificate.fault === undefined;
  }

  /** A request on it was a producer's. */
  know(): void {
    if (this.#known) return;
    this.#known = true;
    this.#host.known(this);
  }

  attach(attachment: T | undefined): void {
    this.#attachment = attachment;
  }

  get handshakeCounts(): boolean {
    return this.#handshakeCounts;
  }

  /** The trust that the handshake was judged by is not in use any more. */
  outdateHandshake(): void {
    this.#handshakeCounts = false;
  }

  /** Ends at once, whatever is owed. */
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
    return this.#sending.length === 0 && !this.#socket.writableNeedDrain;
  }

  wake(): void {
    if (this.#awake) return;
    this.#awake = true;
    this.#host.wake(this);
  }

  request(request: HttpRequest): void {
    this.#idleSinceMs = undefined;
    this.#host.request(this, request);
  }

  mayReadOn(): boolean {
    return this.#host.mayReadOn();
  }

  write(text: string | Buffer, encoding: BufferEncoding, done?: () => void): void {
    if (text.length <= 2 * PIECE_CHARACTERS && this.#sending.length === 0) {
      if (this.#socket.writable) this.#socket.write(text, encoding);
    } else {
      this.#sending.push(encoding === 'latin1' || typeof text !== 'string' ? text : Buffer.from(text, encoding));
      this.#sendPieces();
    }
    if (done === undefined) return;
    if (this.writable) done();
    else this.#written = done;
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  stopReading(unread: boolean): void {
    this.#lingers ||= unread;
    if (this.#state === 'closing' || this.#state === 'closed') return;
    this.#state = 'closing';
    this.#side.stop();
    this.#socket.resume();
  }

  end(unread: boolean): void {
    this.stopReading(unread);
    if (this.#sending.length > 0) this.#written = () => this.end(false);
    else if (this.#lingers) linger(this.#socket);
    else this.#socket.destroySoon();
  }

  sayLast(fault: ProtocolFault): void {
    this.stopReading(true);
    this.write(this.#host.protocolFault(fault), 'latin1');
    this.end(true);
  }

  abort(): void {
    if (!this.#socket.writableEnded) this.#socket.destroy();
  }

  prepareHandOver(): void {
    this.#state = 'handing over';
    this.wake();
  }

  handOver(rest: Buffer): void {
    if (this.#state !== 'handing over') throw new Error(`a connection that is ${this.#state} is handed over`);
    this.#state = 'node';
    this.#side = this.#host.handOver.adopt(this, this.#side.requests);
    if (rest.length > 0) this.#side.feed(rest);
    if (this.#clientEnded) this.#side.feedEnd();
  }

  /** At the end of a turn of the event loop in which something has changed. */
  flush(): void {
    this.#awake = false;
    if (this.#state !== 'closed') this.#side.flush();
  }

  /** Ends what has taken too long. */
  check(nowMs: number, limits: TimeLimits): void {
    const { requests, owing, headSinceMs, bodySinceMs } = this.#side;
    const unsent = this.#sending.reduce((bytes, one) => bytes + one.length, -this.#sent);
    const unreadBytes = this.#socket.writableLength + unsent;
    if (requests !== this.#quietRequests || unreadBytes !== this.#quietUnread || owing) {
      this.#quietRequests = requests;
      this.#quietUnread = unreadBytes;
      this.#quietSinceMs = nowMs;
    }
    const snapshot = {
      headSinceMs,
      bodySinceMs,
      owing,
      unreadBytes,
      quietSinceMs: this.#quietSinceMs,
      requests,
      certified: this.certified,
    };
    const overdue = whatIsOverdue(snapshot, nowMs, limits);
    if (overdue === undefined) return;
    if (this.#state === 'closing' || unreadBytes > 0) this.#socket.destroy();
    else if (overdue === 'head') this.sayLast('timeout');
    else if (overdue === 'request') this.end(false);
    else if (!this.#side.late()) this.#socket.destroy();
  }

  /**
   * While the server stops: ends when nothing has gone on here for `graceMs`, and a look at what has arrived brings
   * nothing.
   */
  endIdle(nowMs: number, graceMs: number): void {
    if (this.#busy) return;
    this.#idleSinceMs ??= nowMs;
    if (nowMs - this.#idleSinceMs < graceMs) return;
    // A look at what has arrived comes between this timer and the check phase.
    setImmediate(() => {
      if (this.#idleSinceMs !== undefined && !this.#busy) this.end(false);
    });
  }

  get #busy(): boolean {
    return this.#side.busy || this.#socket.writableLength > 0 || this.#sending.length > 0;
  }

  #sendPieces(): void {
    while (!this.#socket.writableNeedDrain && this.#socket.writable) {
      const [first] = this.#sending;
      if (first === undefined) return;
      const [from, to] = [this.#sent, this.#sent + PIECE_CHARACTERS];
      const piece = typeof first === 'string' ? first.slice(from, to) : first.subarray(from, to);
      this.#sent += piece.length;
      const isLast = this.#sent === first.length;
      if (isLast) {
        this.#sending.shift();
        this.#sent = 0;
      }
      this.#socket.write(piece, 'latin1', isLast ? () => release(first) : undefined); // A string that is in pieces is latin1.
    }
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#state !== 'closing' && this.#state !== 'closed') this.#side.feed(chunk);
  };

  readonly #onEnd = (): void => {
    this.#clientEnded = true;
    if (this.#state !== 'closing' && this.#state !== 'closed') this.#side.feedEnd();
  };

  readonly #onDrain = (): void => {
    this.#sendPieces();
    if (!this.writable) return;
    const written = this.#written;
    this.#written = undefined;
    written?.();
    this.wake();
  };

  readonly #onClose = (): void => {
    this.#state = 'closed';
    this.#sending.length = 0;
    this.#sent = 0;
    this.#side.close();
    this.#host.closed(this);
  };
}

const NOTHING = Buffer.alloc(0);

// Fact: V8 frees the memory of buffers when it collects garbage, for which 64 MB of them are no reason yet. Choice:
// what a large body stood in is freed when it has left, where it is memory that node lets go of (a Buffer of its own
// making is none). Effect: see test/end-to-end/connection-limits.test.ts.
function release(written: string | Buffer): void {
  if (typeof written === 'string' || !(written.buffer instanceof ArrayBuffer)) return;
  try {
    written.buffer.transfer(0);
  } catch {
    // The garbage collector has it.
  }
}

const ignore = (): void => undefined; // 'close' follows, and tells.

function clientCertificateOf(socket: TLSSocket): ClientCertificate | undefined {
  const certificate = socket.getPeerX509Certificate();
  if (certificate === undefined) return undefined;
  if (socket.authorized) return { certificate, fault: undefined };
  const error: unknown = socket.authorizationError;
  return { certificate, fault: error instanceof Error ? error.message : String(error) };
}

/**
 * Ends our side, throws away what still comes, and lets go when the client has ended too or a second after our last
 * byte. Without it, closing while the client still sends resets the connection, and a reset can overtake the answer
 * (RFC 9112, section 9.6).
 */
function linger(socket: TLSSocket): void {
  if (socket.destroyed) return;
  let timer = setTimeout(() => socket.destroy(), LAST_WRITE_MS);
  socket.once('close', () => clearTimeout(timer));
  let finished = false;
  let ended = socket.readableEnded;
  const done = (): void => {
    if (finished && ended) socket.destroy();
  };
  socket.once('end', () => {
    ended = true;
    done();
  });
  socket.end(() => {
    finished = true;
    clearTimeout(timer);
    timer = setTimeout(() => socket.destroy(), LINGER_MS);
    done();
  });
  socket.resume();
}
