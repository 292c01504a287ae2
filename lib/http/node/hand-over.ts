// Gives a connection to node:http, which reads every request that is not plain.
//
// node:http gets a stream of our own (`NodeSide`) and never sees the socket. A server takes any Duplex that is emitted as its
// 'connection'; node documents that. So the connection still decides what is read and when, and what is written.
//
// What it relies on, checked on node 26.10 and held by test/http/hand-over.test.ts: a Duplex without `setTimeout` gets none of
// node's timers (a server that does not listen has no other); with a high-water mark of 1 a stream passes each piece on before it
// takes the next; a response that says close calls `destroySoon`; `requireHostHeader: false`, `maxHeadersCount: 0` and the
// listeners here leave no answer to be written by node itself (it would lack X-Request-Id).
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { Duplex } from 'node:stream';
import { BYTES_OWED_MAX, REQUESTS_OWED_MAX } from '../limits.ts';
import type { ProtocolFault } from '../request.ts';
import { faultOf, isEndOfInput } from './faults.ts';
import { NodeRequest, type NodeRequestOwner } from './request.ts';

/** What node:http is given at a time while a head may be in it, in bytes: that many requests at most are read ahead. */
const HEAD_SLICE_BYTES = 1_024;
const BODY_SLICE_BYTES = 65_536;

/** The connection, as far as this side of it knows it. */
export interface NodeOwner {
  /** The client takes its answers. */
  readonly writable: boolean;
  nodeRequest(request: NodeRequest): void;
  /** `done` is to be called when more may be written. */
  write(text: string | Buffer, encoding: BufferEncoding, done: () => void): void;
  /** Calls `NodeSide.flush` at the end of this turn of the event loop. */
  wake(): void;
  /** All that was fed is with node:http. */
  nodeTookAll(): void;
  /** What cannot be read is nobody's request: to be answered as the last thing. */
  nodeFault(fault: ProtocolFault): void;
  /** The last answer was written: the connection is to end. `unread`: the client may still be sending. */
  nodeEnded(unread: boolean): void;
  /** Nobody is there any more who could be answered. */
  nodeAborted(): void;
}

export interface HandOverLimits {
  readonly headerBytesMax: number;
  readonly idleTimeoutMs: number;
}

/** Makes the node:http side of connections. */
export class HandOver {
  readonly #server: Server;

  constructor(limits: HandOverLimits) {
    this.#server = createServer({
      maxHeaderSize: limits.headerBytesMax,
      keepAliveTimeout: limits.idleTimeoutMs, // For the header that tells the client; limits.ts keeps it.
      requireHostHeader: false,
    });
    this.#server.maxHeadersCount = 0; // Node would drop what is over without a word; headerBytesMax bounds it.
    // A client that has sent its request and ended its side still gets its answer (RFC 9112, section 9.6).
    Object.assign(this.#server, { httpAllowHalfOpen: true });
    const requested = (request: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void => {
      (request.socket as unknown as NodeSide).requested(request, response, expectsContinue);
    };
    this.#server.on('request', (request, response) => requested(request, response, false));
    this.#server.on('checkContinue', (request, response) => requested(request, response, true));
    this.#server.on('checkExpectation', (request, response) => requested(request, response, false));
    this.#server.on('connect', (_request, side) => (side as unknown as NodeSide).faulty('connect'));
    this.#server.on('clientError', (error, side) => {
      (side as unknown as NodeSide).faulty(isEndOfInput(error) ? 'end of input' : faultOf(error));
    });
  }

  adopt(owner: NodeOwner): NodeSide {
    const side = new NodeSide(owner);
    this.#server.emit('connection', side);
    return side;
  }
}

/** What node:http takes for its socket. */
export class NodeSide extends Duplex implements NodeRequestOwner {
  readonly #owner: NodeOwner;
  /** What has come and was not given to node:http yet. */
  #pending: Buffer = EMPTY;
  #ended = false;
  /** node:http takes the next piece. */
  #takesMore = false;
  #feeding = false;
  /** Requests that were not started yet, oldest first. */
  readonly #waiting: NodeRequest[] = [];
  #requests = 0;
  /** How many requests have no answer yet, and how many no answer that was written to its end. */
  #unanswered = 0;
  #owed = 0;
  #bytesOwed = 0;
  #latest: NodeRequest | undefined;
  /** How many bytes have been fed behind the piece that ended the head of the latest request. */
  #bodyBytesFed = 0;
  /** When the head that is arriving began to; undefined where none is known to. */
  #headSinceMs: number | undefined;
  #fault: ProtocolFault | 'end of input' | undefined;
  /** An answer said that it is the last. */
  #lastAnswered = false;

  constructor(owner: NodeOwner) {
    super({ allowHalfOpen: true, readableHighWaterMark: 1, decodeStrings: false });
    this.#owner = owner;
  }

  /** An answer is owed or on its way, or bytes wait. */
  get busy(): boolean {
    return this.#owed > 0 || this.#pending.length > 0;
  }

  get requests(): number {
    return this.#requests;
  }

  get owing(): boolean {
    return this.#unanswered > 0;
  }

  get headSinceMs(): number | undefined {
    return this.#headSinceMs;
  }

  /** When the request whose body is arriving began to; undefined where none is. */
  get bodySinceMs(): number | undefined {
    return this.#latest?.complete === false ? this.#latest.startMs : undefined;
  }

  /** The rest of the latest request did not come in time. False where it was answered before. */
  late(): boolean {
    return this.#latest?.fault('timeout') ?? false;
  }

  isLatest(request: NodeRequest): boolean {
    return this.#latest === request && this.#pending.length === 0;
  }

  feed(bytes: Buffer): void {
    if (this.#fault !== undefined || this.#lastAnswered) return;
    this.#pending = this.#pending.length === 0 ? bytes : Buffer.concat([this.#pending, bytes]);
    this.#feed();
  }

  /** The client has ended its side. */
  feedEnd(): void {
    this.#ended = true;
    this.#feed();
  }

  /** Starts what may be started, and reads on. */
  flush(): void {
    while (this.#waiting.length > 0 && this.#mayStart()) this.#start();
    if (this.#fault !== undefined && this.#waiting.length === 0) this.#settleFault(this.#fault);
    this.#feed();
  }

  requested(request: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void {
    const latest = new NodeRequest(this, request, response, expectsContinue);
    this.#latest = latest;
    this.#bodyBytesFed = 0;
    this.#headSinceMs = undefined;
    this.#requests += 1;
    this.#unanswered += 1;
    this.#owed += 1;
    response.once('close', () => {
      this.#owed -= 1;
      this.#bytesOwed -= latest.bytesOwed;
      this.#owner.wake();
    });
    this.#waiting.push(latest);
    this.#owner.wake();
  }

  /** What comes next is not for node:http. */
  faulty(fault: ProtocolFault | 'end of input'): void {
    this.#fault ??= fault;
    this.#pending = EMPTY;
    this.#owner.wake();
  }

  answered(request: NodeRequest, bytesExpected: number, close: boolean): void {
    this.#unanswered -= 1;
    this.#bytesOwed += request.bytesOwed - bytesExpected;
    if (!close) return;
    this.#lastAnswered = true;
    this.#pending = EMPTY;
    this.#waiting.length = 0;
  }

  /** node:http calls it behind the last answer, as it would a socket's. */
  destroySoon(): void {
    this.#owner.nodeEnded(this.#latest?.complete === false || this.#fault !== undefined);
  }

  override _read(): void {
    this.#takesMore = true;
    this.#feed();
  }

  override _write(chunk: string | Buffer, encoding: BufferEncoding, done: () => void): void {
    this.#owner.write(chunk, encoding, done);
  }

  override _final(done: () => void): void {
    done();
    this.#owner.nodeEnded(false);
  }

  override _destroy(cause: Error | null, done: (cause?: Error | null) => void): void {
    done(cause);
    this.#owner.nodeAborted();
  }

  #mayStart(): boolean {
    return this.#owner.writable && this.#bytesOwed < BYTES_OWED_MAX;
  }

  #start(): void {
    const request = this.#waiting.shift();
    if (request === undefined) return;
    this.#bytesOwed += request.start();
    this.#owner.nodeRequest(request);
  }

  #mayFeed(): boolean {
    if (this.#fault !== undefined || this.#lastAnswered || !this.#takesMore) return false;
    if (this.#latest?.complete === false) return true;
    return this.#waiting.length === 0 && this.#owed < REQUESTS_OWED_MAX && this.#mayStart();
  }

  #feed(): void {
    if (this.#feeding || this.destroyed) return;
    this.#feeding = true;
    while (this.#pending.length > 0 && this.#mayFeed()) {
      const slice = this.#nextSlice();
      if (this.#latest?.complete === false) this.#bodyBytesFed += slice.length;
      else if (slice.some(isNoLineEnd)) this.#headSinceMs ??= performance.now();
      this.#takesMore = false;
      this.#takesMore = this.push(slice) || this.#takesMore;
    }
    this.#feeding = false;
    if (this.#pending.length > 0 || this.readableEnded) return;
    if (this.#ended) this.push(null);
    else this.#owner.nodeTookAll();
  }

  /** As much as holds few requests, or no more than the body that is arriving. */
  #nextSlice(): Buffer {
    const length = this.#latest?.complete === false ? (this.#latest.contentLength ?? 0) : 0;
    const body = Math.min(length - this.#bodyBytesFed - HEAD_SLICE_BYTES, BODY_SLICE_BYTES);
    const bytes = Math.max(body, HEAD_SLICE_BYTES);
    const slice = this.#pending.subarray(0, bytes);
    this.#pending = this.#pending.subarray(bytes);
    return slice;
  }

  #settleFault(fault: ProtocolFault | 'end of input'): void {
    const isInBody = this.#latest?.complete === false;
    if (isInBody && fault === 'end of input') this.#owner.nodeAborted();
    else if (this.#owed > 0) {
      if (isInBody) this.#latest?.fault(fault === 'end of input' ? 'malformed' : fault);
    } else if (isInBody) this.#owner.nodeEnded(true);
    else this.#owner.nodeFault(fault === 'end of input' ? 'malformed' : fault);
  }
}

const isNoLineEnd = (byte: number): boolean => byte !== 0x0d && byte !== 0x0a;
const EMPTY = Buffer.alloc(0);
