// What node:http takes for its socket: a stream that is fed the bytes of one connection, few requests at a time.
//
// Invariants: one request is served at a time, in their order: the next one when the answer before it was written.
// Nothing is fed behind a request that is the last one.
//
// What it relies on, checked on node 26.10 and held by test/http/hand-over.test.ts: a Duplex without `setTimeout` gets
// none of node's timers; with a high-water mark of 1 a stream passes each piece on before it takes the next; a response
// that says close calls `destroySoon`, and one to a client that waits for 100 (Continue) says it.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Duplex } from 'node:stream';
import { assert } from '../assert.ts';
import type { Clock } from '../../process/clock.ts';
import type { HttpRequest, ProtocolFault } from '../request.ts';
import { NodeRequest, type NodeRequestOwner } from './request.ts';

/**
 * What comes by the connection: `open`: more may come; `ended`: the client has ended its side; `closed`: the connection
 * is closed.
 */
type InputState = 'open' | 'ended' | 'closed';

/**
 * Whether more may be given to node:http: `open`: up to the next request; `used`: that request has come; `in line`: it
 * waits for its next turn.
 */
type Turn = 'open' | 'used' | 'in line';

const NEXT_STATES: Readonly<Record<InputState, readonly InputState[]>> = {
  open: ['ended', 'closed'],
  ended: ['closed'],
  closed: [],
};

/** Where a head may begin: it holds few requests. */
const HEAD_SLICE_BYTES = 256;
/** Inside a body whose end is not known or near. */
const BODY_END_SLICE_BYTES = 1_024;
const BODY_SLICE_BYTES = 65_536;

// Fact: a body in chunks of one byte takes node:http 2 us for each, and one read of a socket brings 11,000 of them; 60
// such bodies kept others waiting for 14 seconds. Choice: what is behind the first bytes of a body without an announced
// length waits in line. Effect: 0.2 seconds (test/end-to-end/short-pieces.long.ts).
/** How much of such a body is given before its side queues, and then in each of its turns. */
const CHUNKED_FIRST_BYTES = 2_048;
const CHUNKED_TURN_BYTES = 16_384;

/** Of a body, one after the other: no more than is left of it, where that is known. */
class BodySlices {
  #fedBytes = 0;
  #turnEndBytes = 0;

  /** As much has been given as a body without an announced length may get before it is its side's turn again. */
  get hadTurn(): boolean {
    return this.#fedBytes >= this.#turnEndBytes;
  }

  /** The head of another request has been given; the piece that ended it may hold the beginning of the body. */
  begin(): void {
    this.#fedBytes = 0;
    this.#turnEndBytes = CHUNKED_FIRST_BYTES;
  }

  takeTurn(): void {
    this.#turnEndBytes = this.#fedBytes + CHUNKED_TURN_BYTES;
  }

  fed(bytes: number): void {
    this.#fedBytes += bytes;
  }

  /** How long the next one may be. `contentLength`: what was announced. */
  nextBytes(contentLength: number | undefined): number {
    const known = Math.min((contentLength ?? 0) - this.#fedBytes - BODY_END_SLICE_BYTES, BODY_SLICE_BYTES);
    return Math.max(known, BODY_END_SLICE_BYTES);
  }
}

/** The connection, as the side of node:http sees it. */
export interface Wire {
  /** More requests may be read. */
  readonly reading: boolean;
  readonly clock: Clock;
  /** The client reads its answers. */
  readonly writable: boolean;
  /** Calls `flush` of the side at the end of this turn of the event loop. */
  wake(): void;
  /** A request has arrived. */
  request(request: HttpRequest): void;
  /** `done` is called as soon as more may be written. */
  write(text: string | Buffer, encoding: BufferEncoding, done?: () => void): void;
  /** Nothing more is to be fed before `resume`. */
  pause(): void;
  resume(): void;
  /** The last answer is made: nothing more is read. `unread`: the client may still be sending. */
  stopReading(unread: boolean): void;
  /** The last answer was written: the connection ends after it. `unread`: the client may still be sending. */
  end(unread: boolean): void;
  /** Answers a request whose head could not be read, and closes. */
  sayLast(fault: ProtocolFault): void;
  /** The connection ends after the answers that are owed: no request begins any more. */
  readonly retiring: boolean;
  /** Closes the connection immediately: the client is gone. */
  abort(): void;
}

export class NodeSide extends Duplex implements NodeRequestOwner {
  readonly #wire: Wire;
  readonly #standInLine: (side: NodeSide) => void;
  #turn: Turn = 'open';
  /** What has come and was not given to node:http yet. */
  #pending: Buffer = EMPTY;
  #state: InputState = 'open';
  /** node:http takes the next piece. */
  #takesMore = false;
  #feeding = false;
  /** The request that is served, until its answer was written to its end; and those behind it, oldest first. */
  #current: NodeRequest | undefined;
  readonly #waiting: NodeRequest[] = [];
  #requests: number;
  #latest: NodeRequest | undefined;
  /** Of the latest request. */
  readonly #bodySlices = new BodySlices();
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
    return this.#current !== undefined || this.#waiting.length > 0 || this.#pending.length > 0;
  }

  get requests(): number {
    return this.#requests;
  }

  get unwrittenBytes(): number {
    return this.writableLength;
  }

  get owing(): boolean {
    return this.#current?.answered === false;
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

  /** Bytes have arrived. Returns true if they completed the head of a request. */
  feed(bytes: Buffer): boolean {
    assert(this.#state === 'open', 'bytes come before the client ends its side');
    if (this.#fault !== undefined) return false;
    const before = this.#requests;
    this.#pending = this.#pending.length === 0 ? bytes : Buffer.concat([this.#pending, bytes]);
    if (this.#turn === 'used') this.#turn = 'open'; // A client that sends one request at a time never queues.
    this.#feed();
    return this.#requests > before;
  }

  /** More of what waits may be fed, up to the next requests. */
  takeTurn(): void {
    assert(this.#turn === 'in line', 'only a side in line takes a turn');
    this.#turn = 'open';
    this.#bodySlices.takeTurn();
    this.#feed();
  }

  feedEnd(): void {
    this.#become('ended');
    this.#feed();
  }

  flush(): void {
    if (this.#wire.retiring && this.#current === undefined && this.#wire.reading) {
      this.#wire.end(true);
      return;
    }
    if (this.#current === undefined && this.#wire.writable) this.#start();
    if (this.#fault !== undefined && this.#waiting.length === 0 && this.#wire.reading) this.#settleFault(this.#fault);
    this.#feed();
  }

  stop(): void {
    this.#pending = EMPTY;
    this.#waiting.length = 0;
  }

  close(): void {
    this.#become('closed');
    this.destroy();
  }

  requested(request: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void {
    // Requests behind the last one, or parsed after the connection began to close, are not served. Fact:
    // after an answer that closes node:http takes the answers to requests behind it for the first, and ends the process
    // by an assertion.
    if (this.#latest?.isLast === true || !this.#wire.reading) return;
    const latest = new NodeRequest(this, request, response, expectsContinue, this.#wire.clock.ms());
    this.#latest = latest;
    this.#bodySlices.begin();
    this.#headSinceMs = undefined;
    this.#requests += 1;
    if (this.#turn === 'open') this.#turn = 'used';
    response.once('close', () => {
      if (this.#current === latest) this.#current = undefined;
      else assert(this.destroyed, 'answers are written in the order of their requests');
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

  answered(request: NodeRequest, close: boolean): void {
    assert(this.#current === request, 'the request that is served is answered');
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

  #become(next: InputState): void {
    assert(NEXT_STATES[this.#state].includes(next), `input that is ${this.#state} may become ${next}`);
    this.#state = next;
  }

  #start(): void {
    this.#current = this.#waiting.shift();
    if (this.#current !== undefined) this.#wire.request(this.#current);
  }

  #mayFeed(): boolean {
    if (this.#fault !== undefined || !this.#wire.reading || !this.#takesMore) return false;
    if (this.#turn === 'in line') return false;
    if (this.#latest?.isLast === true && (this.#latest.complete || this.#latest.head.defect !== undefined))
      return false;
    if (this.#latest?.complete === false) return true;
    return this.#waiting.length === 0 && this.#current === undefined && this.#wire.writable;
  }

  #feed(): void {
    if (this.#feeding || this.destroyed) return;
    this.#feeding = true;
    while (this.#pending.length > 0 && this.#mayFeed()) {
      if (this.#hasHadItsTurn()) {
        this.#turn = 'in line';
        this.#standInLine(this);
        break;
      }
      const slice = this.#nextSlice();
      if (this.#latest?.complete === false) this.#bodySlices.fed(slice.length);
      else if (slice.some(isNoLineEnd)) this.#headSinceMs ??= this.#wire.clock.ms();
      this.#takesMore = false;
      this.#takesMore = this.push(slice) || this.#takesMore;
    }
    this.#feeding = false;
    if (this.#pending.length > 0) this.#wire.pause();
    else if (this.#state === 'open') this.#wire.resume();
    else this.push(null);
  }

  #hasHadItsTurn(): boolean {
    if (this.#latest?.complete !== false) return this.#turn === 'used';
    return this.#latest.head.contentLength === undefined && this.#bodySlices.hadTurn;
  }

  /** As much as holds few requests, or no more than the body that is arriving. */
  #nextSlice(): Buffer {
    const latest = this.#latest;
    const isInBody = latest?.complete === false;
    const bytes = isInBody ? this.#bodySlices.nextBytes(latest.head.contentLength) : HEAD_SLICE_BYTES;
    const slice = this.#pending.subarray(0, bytes);
    this.#pending = this.#pending.subarray(bytes);
    assert(slice.length > 0, 'a slice holds bytes');
    return slice;
  }

  #settleFault(fault: ProtocolFault | 'end of input'): void {
    const latest = this.#latest;
    const isInBody = latest?.complete === false;
    // A request whose body ends early is owed nothing.
    if (isInBody && fault === 'end of input' && !latest.answered) this.#wire.end(false);
    else if (this.#current !== undefined) {
      if (isInBody) latest.fault(fault === 'end of input' ? 'malformed' : fault);
    } else if (isInBody) this.#wire.end(true);
    else this.#wire.sayLast(fault === 'end of input' ? 'malformed' : fault);
  }
}

const isNoLineEnd = (byte: number): boolean => byte !== 0x0d && byte !== 0x0a;
const EMPTY = Buffer.alloc(0);
