// Gives a connection to node:http, which reads every request that is not plain.
//
// node:http gets a stream of our own (`NodeSide`) and never sees the socket. A server takes any Duplex that is emitted
// as its 'connection'; node documents that. So the connection still decides what is read and when, and what is written.
//
// What it relies on, checked on node 26.10 and held by test/http/hand-over.test.ts: a Duplex without `setTimeout` gets
// none of node's timers (a server that does not listen has no other); with a high-water mark of 1 a stream passes each
// piece on before it takes the next; a response that says close calls `destroySoon`, and one to a client that waits for
// 100 (Continue) says it; `requireHostHeader: false`, `maxHeadersCount: 0` and the listeners here leave no answer to be
// written by node itself (it would lack X-Request-Id).
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { Duplex } from 'node:stream';
import { BYTES_OWED_MAX, REQUESTS_OWED_MAX } from '../limits.ts';
import type { ProtocolFault } from '../request.ts';
import type { Side, Wire } from '../side.ts';
import { faultOf, isEndOfInput } from './faults.ts';
import { NodeRequest, type NodeRequestOwner } from './request.ts';

/** What node:http is given at a time where a head may begin, in bytes: it holds few requests. */
const HEAD_SLICE_BYTES = 256;
/** The same inside a body whose end is not known or near. */
const BODY_END_SLICE_BYTES = 1_024;
const BODY_SLICE_BYTES = 65_536;

export interface HandOverLimits {
  readonly headerBytesMax: number;
  readonly idleTimeoutMs: number;
}

/** How many connections with more requests in hand go on in one turn of the event loop. */
const SIDES_A_TURN = 4;

/** Makes the node:http side of connections, and lets them take turns. */
export class HandOver {
  readonly #server: Server;
  // Fact: a request takes node:http 50 us, and one read of a socket brings up to 1,700: those of 100 connections,
  // served as they came, kept the event loop for nine seconds. Choice: what stands behind the first requests of a read
  // waits in this line.
  /** Sides with more to feed, in the order in which they came. */
  #line: NodeSide[] = [];

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

  /** Calls `takeTurn` of the side, once, in a later turn of the event loop. */
  readonly #standInLine = (side: NodeSide): void => {
    if (this.#line.push(side) === 1) setImmediate(this.#giveTurns);
  };

  readonly #giveTurns = (): void => {
    const now = this.#line.slice(0, SIDES_A_TURN);
    this.#line = this.#line.slice(SIDES_A_TURN);
    if (this.#line.length > 0) setImmediate(this.#giveTurns);
    for (const side of now) side.takeTurn();
  };

  /** `requests` have come by the connection before. */
  adopt(wire: Wire, requests: number): Side {
    const side = new NodeSide(wire, requests, this.#standInLine);
    this.#server.emit('connection', side);
    side.once('end', () => side.readToItsEnd()); // Behind node:http's own listener.
    return side;
  }
}

/** What node:http takes for its socket. */
class NodeSide extends Duplex implements Side, NodeRequestOwner {
  readonly #wire: Wire;
  readonly #standInLine: (side: NodeSide) => void;
  #inLine = false;
  /** How many requests had come when its turn began; undefined: it is not its turn. */
  #turnFrom: number | undefined;
  /** What has come and was not given to node:http yet. */
  #pending: Buffer = EMPTY;
  #ended = false;
  /** node:http takes the next piece. */
  #takesMore = false;
  #feeding = false;
  /** Requests that were not started yet, oldest first. */
  readonly #waiting: NodeRequest[] = [];
  #requests: number;
  /** How many requests were started and have no answer yet, and how many have no answer that was written to its end. */
  #unanswered = 0;
  #owed = 0;
  #bytesOwed = 0;
  #latest: NodeRequest | undefined;
  /** How many bytes have been fed behind the piece that ended the head of the latest request. */
  #bodyBytesFed = 0;
  /** When the head that is arriving began to; undefined where none is known to. */
  #headSinceMs: number | undefined;
  #fault: ProtocolFault | 'end of input' | undefined;

  constructor(wire: Wire, requests: number, standInLine: (side: NodeSide) => void) {
    super({ allowHalfOpen: true, readableHighWaterMark: 1, decodeStrings: false });
    this.#wire = wire;
    this.#standInLine = standInLine;
    this.#requests = requests;
  }

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

  get bodySinceMs(): number | undefined {
    return this.#latest?.complete === false ? this.#latest.startMs : undefined;
  }

  late(): boolean {
    return this.#latest?.fault('timeout') ?? false;
  }

  isLatest(request: NodeRequest): boolean {
    return this.#latest === request && this.#pending.length === 0;
  }

  feed(bytes: Buffer): void {
    if (this.#fault !== undefined) return;
    this.#pending = this.#pending.length === 0 ? bytes : Buffer.concat([this.#pending, bytes]);
    this.#turnFrom = this.#requests; // Whoever sends one request at a time never waits in line.
    this.#feed();
  }

  /** More of what waits may be fed, up to the next requests. */
  takeTurn(): void {
    this.#inLine = false;
    this.#turnFrom = this.#requests;
    this.#feed();
  }

  feedEnd(): void {
    this.#ended = true;
    this.#feed();
  }

  flush(): void {
    while (this.#waiting.length > 0 && this.#mayStart()) this.#start();
    if (this.#fault !== undefined && this.#waiting.length === 0 && this.#wire.state === 'node')
      this.#settleFault(this.#fault);
    this.#feed();
  }

  stop(): void {
    this.#pending = EMPTY;
    this.#waiting.length = 0;
  }

  close(): void {
    this.destroy();
  }

  requested(request: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void {
    // What came behind the last one, or stood in node:http when the connection began to close, is no request. Fact:
    // after an answer that closes node:http takes the answers to requests behind it for the first, and ends the process
    // by an assertion.
    if (this.#latest?.isLast === true || this.#wire.state !== 'node') return;
    const latest = new NodeRequest(this, request, response, expectsContinue);
    this.#latest = latest;
    this.#bodyBytesFed = 0;
    this.#headSinceMs = undefined;
    this.#requests += 1;
    this.#owed += 1;
    response.once('close', () => {
      this.#owed -= 1;
      this.#bytesOwed -= latest.bytesOwed;
      this.#wire.wake();
    });
    this.#waiting.push(latest);
    this.#wire.wake();
  }

  /** What comes next is not for node:http. */
  faulty(fault: ProtocolFault | 'end of input'): void {
    if (this.#latest?.isLast !== true || !this.#latest.complete) this.#fault ??= fault;
    this.#pending = EMPTY;
    this.#wire.wake();
  }

  /** node:http has read all that the client sent before it ended its side. */
  readToItsEnd(): void {
    // Fact: node:http swallows the faults of a body behind `Upgrade` and takes its end for none, and would wait for the
    // rest.
    if (this.#latest?.complete === false) this.faulty('end of input');
  }

  answered(request: NodeRequest, bytesExpected: number, close: boolean): void {
    this.#unanswered -= 1;
    this.#bytesOwed += request.bytesOwed - bytesExpected;
    if (close) this.#wire.stopReading(!request.complete || request.isLast || this.#pending.length > 0);
  }

  /** node:http calls it behind the last answer, as it would a socket's. */
  destroySoon(): void {
    this.#wire.end(this.#latest?.complete === false || this.#fault !== undefined);
  }

  override _read(): void {
    this.#takesMore = true;
    // Fact: a stream asks for the next piece before it passes the last one on. Choice: it gets it after that.
    process.nextTick(() => this.#feed());
  }

  override _write(chunk: string | Buffer, encoding: BufferEncoding, done: () => void): void {
    this.#wire.write(chunk, encoding, done);
  }

  override _final(done: () => void): void {
    done();
    this.#wire.end(false);
  }

  override _destroy(cause: Error | null, done: (cause?: Error | null) => void): void {
    done(cause);
    this.#wire.abort();
  }

  #mayStart(): boolean {
    return this.#wire.writable && this.#bytesOwed < BYTES_OWED_MAX;
  }

  #start(): void {
    const request = this.#waiting.shift();
    if (request === undefined) return;
    this.#unanswered += 1;
    this.#bytesOwed += request.start();
    this.#wire.request(request);
  }

  #mayFeed(): boolean {
    if (this.#fault !== undefined || this.#wire.state !== 'node' || !this.#takesMore) return false;
    if (this.#latest?.isLast === true && (this.#latest.complete || this.#latest.defect !== undefined)) return false;
    if (this.#latest?.complete === false) return true;
    return this.#waiting.length === 0 && this.#owed < REQUESTS_OWED_MAX && this.#mayStart();
  }

  #feed(): void {
    if (this.#feeding || this.destroyed) return;
    this.#feeding = true;
    while (this.#pending.length > 0 && this.#mayFeed()) {
      if (this.#latest?.complete !== false && this.#turnFrom !== this.#requests) {
        this.#turnFrom = undefined;
        if (!this.#inLine) this.#standInLine(this);
        this.#inLine = true;
        break;
      }
      const slice = this.#nextSlice();
      if (this.#latest?.complete === false) this.#bodyBytesFed += slice.length;
      else if (slice.some(isNoLineEnd)) this.#headSinceMs ??= performance.now();
      this.#takesMore = false;
      this.#takesMore = this.push(slice) || this.#takesMore;
    }
    this.#feeding = false;
    if (this.#pending.length > 0) this.#wire.pause();
    else if (!this.#ended) this.#wire.resume();
    else if (!this.readableEnded) this.push(null);
  }

  /** As much as holds few requests, or no more than the body that is arriving. */
  #nextSlice(): Buffer {
    const isInBody = this.#latest?.complete === false;
    const length = isInBody ? (this.#latest?.contentLength ?? 0) : 0;
    const body = Math.min(length - this.#bodyBytesFed - BODY_END_SLICE_BYTES, BODY_SLICE_BYTES);
    const bytes = Math.max(body, isInBody ? BODY_END_SLICE_BYTES : HEAD_SLICE_BYTES);
    const slice = this.#pending.subarray(0, bytes);
    this.#pending = this.#pending.subarray(bytes);
    return slice;
  }

  #settleFault(fault: ProtocolFault | 'end of input'): void {
    const latest = this.#latest;
    const isInBody = latest?.complete === false;
    if (isInBody && fault === 'end of input' && !latest.answered) {
      // Nothing is owed for that one any more, but the answers before it are.
      if (this.#owed === 1) this.#wire.end(false);
    } else if (this.#owed > 0) {
      if (isInBody) latest.fault(fault === 'end of input' ? 'malformed' : fault);
    } else if (isInBody) this.#wire.end(true);
    else this.#wire.sayLast(fault === 'end of input' ? 'malformed' : fault);
  }
}

const isNoLineEnd = (byte: number): boolean => byte !== 0x0d && byte !== 0x0a;
const EMPTY = Buffer.alloc(0);
