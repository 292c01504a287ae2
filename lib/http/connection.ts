// One TLS connection. It is the sole owner of the socket: nobody else reads from it, writes to it or ends it.
//
// Fact: of 78 µs that an empty node:https server uses for a request, 38 are node's streams, timers and messages around the
// parser, not TLS or the kernel (a server that reads and answers on the socket: 40 µs). Choice: plain requests are read here;
// with the first one that is not, the connection goes to node:http for good, with every byte that was not read yet.
//
// States: plain → handing over (the next request is node:http's; the answers owed before it come first) → node; from each of
// them → closing (the last answer is made, nothing is read any more) → closed.
//
// Invariants: answers leave in the order of the requests. What waits unread is bounded by one read of the socket: while it waits,
// the socket is paused. Nothing that has come is lost: it is read, handed over, or the connection has said that it closes.
import type { X509Certificate } from 'node:crypto';
import type { TLSSocket } from 'node:tls';
import { PIECE_CHARACTERS, whatIsOverdue, type Overdue, type TimeLimits } from './limits.ts';
import type { HandOver, NodeOwner, NodeSide } from './node/hand-over.ts';
import type { NodeRequest } from './node/request.ts';
import { AnswerQueue } from './plain/answer-queue.ts';
import type { RequestHead } from './plain/head.ts';
import { PlainParser } from './plain/parser.ts';
import { PlainRequest, type PlainOwner } from './plain/request.ts';
import type { HttpRequest, ProtocolFault } from './request.ts';

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
  /** Calls `flush` at the end of this turn of the event loop. To be called once until then. */
  wake(connection: Connection<T>): void;
  request(connection: Connection<T>, request: HttpRequest): void;
  /** The whole response to a request whose head could not be read. */
  protocolFault(fault: ProtocolFault): string;
  closed(connection: Connection<T>): void;
}

type State = 'plain' | 'handing over' | 'node' | 'closing' | 'closed';

/** `T` is what the application keeps with a connection. */
export class Connection<T> implements PlainOwner, NodeOwner {
  /**
   * Taken once. The socket's own `getPeerX509Certificate()` gives the certificate of the latest handshake and `authorized` the
   * verdict on the first one, so they must not be asked later. Undefined where the client sent none.
   */
  readonly clientCertificate: ClientCertificate | undefined;
  readonly #host: ConnectionHost<T>;
  readonly #socket: TLSSocket;
  readonly #parser = new PlainParser();
  readonly #answers = new AnswerQueue<PlainRequest>();
  #state: State = 'plain';
  #attachment: T | undefined;
  #handshakeCounts: boolean;
  #node: NodeSide | undefined;
  /** The plain request whose body is still to come. */
  #arriving: PlainRequest | undefined;
  #headSinceMs: number | undefined;
  #clientEnded = false;
  #awake = false;
  /** What may still come when the connection closes is waited for. */
  #lingers = false;
  /** An answer that leaves in pieces, from `#sent` on, and who waits for its end. */
  #sending: Buffer | undefined;
  #sent = 0;
  #written: (() => void) | undefined;
  /** How much had come and was unread when that was last found to have changed, and when that was. */
  #requests = 0;
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
    this.clientCertificate = clientCertificateOf(socket);
    socket.on('data', this.#onData);
    socket.on('end', this.#onEnd);
    socket.on('drain', this.#onDrain);
    socket.on('close', this.#onClose);
    socket.on('error', ignore);
  }

  get attachment(): T | undefined {
    return this.#attachment;
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

  get keepAlive(): string {
    return this.#host.keepAlive;
  }

  get gone(): boolean {
    return this.#state === 'closed';
  }

  get writable(): boolean {
    return this.#sending === undefined && !this.#socket.writableNeedDrain;
  }

  /** Ends at once, whatever is owed. */
  destroy(): void {
    this.#socket.destroy();
  }

  isLatest(request: PlainRequest): boolean {
    return (
      this.#answers.newest === request &&
      !this.#parser.inHead &&
      this.#parser.unread <= (this.#arriving?.bytesMissing ?? 0)
    );
  }

  bodyDecided(): void {
    this.wake();
  }

  answered(request: PlainRequest): void {
    this.#answers.answered(request);
    if (request.closes) this.#stopReading(!request.complete);
    this.wake();
  }

  wake(): void {
    if (this.#awake) return;
    this.#awake = true;
    this.#host.wake(this);
  }

  /** Writes the answers that are ready, then reads on where that was waited for. */
  flush(): void {
    this.#awake = false;
    if (this.#state === 'closed') return;
    if (this.#state === 'node') {
      this.#node?.flush();
      return;
    }
    this.#writeAnswers();
    if (this.#state === 'plain' && this.#socket.isPaused()) this.#read();
    this.#settle();
  }

  /** Ends what has taken too long. */
  check(nowMs: number, limits: TimeLimits): void {
    const requests = this.#requests + (this.#node?.requests ?? 0);
    const unreadBytes =
      this.#socket.writableLength + (this.#sending === undefined ? 0 : this.#sending.length - this.#sent);
    const { oldest } = this.#answers;
    const owing = this.#node?.owing ?? (oldest !== undefined && oldest.answer === undefined);
    if (requests !== this.#quietRequests || unreadBytes !== this.#quietUnread || owing) {
      this.#quietRequests = requests;
      this.#quietUnread = unreadBytes;
      this.#quietSinceMs = nowMs;
    }
    const headSinceMs = this.#node === undefined ? this.#headSinceMs : this.#node.headSinceMs;
    const bodySinceMs = this.#node === undefined ? this.#arriving?.startMs : this.#node.bodySinceMs;
    const snapshot = { headSinceMs, bodySinceMs, owing, unreadBytes, quietSinceMs: this.#quietSinceMs, requests };
    const overdue = whatIsOverdue(snapshot, nowMs, limits);
    if (overdue === undefined) return;
    if (this.#state === 'closing') this.#socket.destroy();
    else this.#end(overdue, unreadBytes);
  }

  /** While the server stops: ends when nothing has gone on here for `graceMs`, and a look at what has arrived brings nothing. */
  endIdle(nowMs: number, graceMs: number): void {
    if (this.#busy) return;
    this.#idleSinceMs ??= nowMs;
    if (nowMs - this.#idleSinceMs < graceMs) return;
    // A look at what has arrived comes between this timer and the check phase.
    setImmediate(() => {
      if (this.#idleSinceMs === undefined || this.#busy) return;
      this.#stopReading(false);
      this.#close();
    });
  }

  nodeRequest(request: NodeRequest): void {
    this.#idleSinceMs = undefined;
    this.#host.request(this, request);
  }

  write(text: string | Buffer, encoding: BufferEncoding, done: () => void): void {
    this.#send(text, encoding);
    if (this.writable || this.#state === 'closed') done();
    else this.#written = done;
  }

  nodeTookAll(): void {
    if (this.#state === 'node') this.#socket.resume();
  }

  nodeFault(fault: ProtocolFault): void {
    this.#sayLast(fault);
  }

  nodeEnded(unread: boolean): void {
    this.#stopReading(unread);
    this.#close();
  }

  nodeAborted(): void {
    if (this.#state === 'node') this.#socket.destroy();
  }

  /** An answer is owed or on its way, or a request is under way. */
  get #busy(): boolean {
    if (this.#socket.writableLength > 0 || this.#sending !== undefined) return true;
    if (this.#node !== undefined) return this.#node.busy;
    return this.#answers.any || this.#arriving !== undefined || this.#parser.unread > 0;
  }

  readonly #onData = (chunk: Buffer): void => {
    switch (this.#state) {
      case 'plain':
        this.#parser.push(chunk);
        this.#read();
        return;
      case 'handing over':
        this.#parser.push(chunk);
        return;
      case 'node':
        this.#socket.pause();
        this.#node?.feed(chunk);
        return;
      case 'closing':
      case 'closed': // Thrown away.
    }
  };

  /** Reads what may be read now; where something is left, the socket waits. */
  #read(): void {
    let head: RequestHead | 'more' | 'not plain' | undefined;
    while (this.#state === 'plain') {
      if (this.#arriving !== undefined) {
        if (!this.#arriving.takesBody) break;
        const part = this.#parser.body();
        if (part === undefined) break;
        this.#arriving.take(part);
        if (this.#arriving.complete) this.#arriving = undefined;
        continue;
      }
      if (this.#answers.full || !this.writable) break;
      head = this.#parser.next();
      if (typeof head === 'string') break;
      this.#begin(head);
    }
    if (head === 'not plain') {
      this.#state = 'handing over';
      this.wake();
    }
    if (this.#parser.inHead) this.#headSinceMs ??= performance.now();
    else this.#headSinceMs = undefined;
    if (this.#state !== 'closing' && this.#parser.unread > 0) this.#socket.pause();
    else this.#socket.resume();
  }

  #begin(head: RequestHead): void {
    const missing = head.contentLength ?? 0;
    const whole = missing === 0 ? undefined : this.#parser.wholeBody();
    const request = new PlainRequest(
      this,
      head,
      whole,
      missing === 0 || whole !== undefined ? 0 : (this.#headSinceMs ?? performance.now()),
    );
    this.#headSinceMs = undefined;
    if (!request.complete) this.#arriving = request;
    this.#answers.add(request);
    this.#requests += 1;
    this.#idleSinceMs = undefined;
    this.#host.request(this, request);
  }

  #writeAnswers(): void {
    while (this.writable) {
      const batch = this.#answers.take();
      if (batch === undefined) return;
      this.#send(batch.text, batch.encoding);
      if (batch.closes) this.#close();
    }
  }

  #send(text: string | Buffer, encoding: BufferEncoding): void {
    if (!this.#socket.writable) return;
    if (text.length <= 2 * PIECE_CHARACTERS) {
      this.#socket.write(text, encoding);
      return;
    }
    this.#sending = typeof text === 'string' ? Buffer.from(text, encoding) : text;
    this.#sendPieces();
  }

  #sendPieces(): void {
    while (this.#sending !== undefined && !this.#socket.writableNeedDrain) {
      const piece = this.#sending.subarray(this.#sent, this.#sent + PIECE_CHARACTERS);
      this.#sent += piece.length;
      if (this.#sent === this.#sending.length) {
        this.#sending = undefined;
        this.#sent = 0;
      }
      this.#socket.write(piece);
    }
  }

  /** What can only be done when no answer is owed any more. */
  #settle(): void {
    if (this.#clientEnded && this.#arriving !== undefined && this.#parser.unread === 0) this.#abort(this.#arriving);
    if (this.#answers.any || this.#sending !== undefined) return;
    if (this.#state === 'handing over') this.#goToNode();
    else if (this.#state === 'plain' && this.#clientEnded) {
      if (this.#parser.inHead) this.#sayLast('malformed');
      else if (this.#parser.unread === 0) this.nodeEnded(false);
    }
  }

  #goToNode(): void {
    this.#state = 'node';
    this.#headSinceMs = undefined;
    this.#node = this.#host.handOver.adopt(this);
    this.#node.feed(this.#parser.rest());
    if (this.#clientEnded) this.#node.feedEnd();
  }

  /** The client ended its side in the middle of a body: nothing is owed for that one any more. */
  #abort(arriving: PlainRequest): void {
    this.#arriving = undefined;
    arriving.cut();
    if (arriving.answer === undefined) this.#answers.dropNewest();
  }

  #end(overdue: Overdue, unreadBytes: number): void {
    if (overdue === 'body') {
      if ((this.#node ?? this.#arriving)?.late() !== true) this.#socket.destroy();
    } else if (overdue === 'head') {
      this.#sayLast('timeout');
    } else if (unreadBytes > 0) {
      this.#socket.destroy(); // It does not read its answers.
    } else {
      this.nodeEnded(false);
    }
  }

  /** Answers what is nobody's request, as the last thing. */
  #sayLast(fault: ProtocolFault): void {
    this.#stopReading(true);
    this.#send(this.#host.protocolFault(fault), 'latin1');
    this.#close();
  }

  #stopReading(lingers: boolean): void {
    if (this.#state === 'closed') return;
    this.#state = 'closing';
    this.#lingers ||= lingers;
    this.#parser.rest();
    this.#headSinceMs = undefined;
    this.#socket.resume();
  }

  /** Nothing more is written. Ends when all that was written has left. */
  #close(): void {
    if (this.#sending !== undefined) this.#written = () => this.#close();
    else if (this.#lingers) linger(this.#socket);
    else this.#socket.destroySoon();
  }

  readonly #onDrain = (): void => {
    this.#sendPieces();
    if (!this.writable) return;
    const written = this.#written;
    this.#written = undefined;
    written?.();
    this.wake();
  };

  readonly #onEnd = (): void => {
    this.#clientEnded = true;
    if (this.#state === 'node') this.#node?.feedEnd();
    else if (this.#state === 'plain' || this.#state === 'handing over') this.wake();
  };

  readonly #onClose = (): void => {
    this.#state = 'closed';
    this.#parser.rest();
    this.#arriving?.cut();
    this.#arriving = undefined;
    this.#answers.clear();
    this.#sending = undefined;
    this.#node?.destroy();
    this.#host.closed(this);
  };
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
 * Ends our side, throws away what still comes, and lets go when the client has ended too or a second after our last byte.
 * Without it, closing while the client still sends resets the connection, and a reset can overtake the answer (RFC 9112,
 * section 9.6).
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
