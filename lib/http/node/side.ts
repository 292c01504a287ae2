// The stream that node:http uses as its socket. It receives the bytes of one connection, a few requests at a time.
//
// Invariants: requests are handled one at a time, in order. Nothing is fed after the last request.
//
// Relies on facts about node 26.10 (test/http/hand-over.test.ts): a Duplex without `setTimeout` gets no timers; with
// a high-water mark of 1, a stream passes on each piece before it accepts the next; a response that closes the
// connection calls `destroySoon`; a response to a client that is waiting for 100 (Continue) closes the connection.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Duplex } from 'node:stream';
import { assert } from '../assert.ts';
import type { Clock } from '../../process/clock.ts';
import type { HttpRequest, ProtocolFault } from '../request.ts';
import { NodeRequest, type NodeRequestOwner } from './request.ts';

/** `open`: more input may arrive; `ended`: the client has ended its side; `closed`: the connection is closed. */
type InputState = 'open' | 'ended' | 'closed';

/** `open`: node:http may receive input up to the next request; `used`: it has done so; `in line`: this side waits. */
type AnswerTurn = 'open' | 'used' | 'in line';

const NEXT_STATES: Readonly<Record<InputState, readonly InputState[]>> = {
  open: ['ended', 'closed'],
  ended: ['closed'],
  closed: [],
};

const HEAD_SLICE_BYTES = 256;
/** Maximum slice of a body whose end is unknown or near. */
const BODY_END_SLICE_BYTES = 1_024;
const BODY_SLICE_BYTES = 65_536;

// Fact: node:http needs 2 µs per chunk, and one read of a socket returns up to 11,000 chunks of one byte. 60 such
// bodies delayed other requests by 14 seconds. Choice: a body without an announced length waits in line after its
// first bytes. Effect: a delay of 0.2 seconds (test/end-to-end/short-pieces.long.ts).
/** Bytes of a body without an announced length that are fed before it waits in line, and then in each of its turns. */
const CHUNKED_FIRST_BYTES = 2_048;
const CHUNKED_TURN_BYTES = 16_384;

class BodySlices {
  #fedBytes = 0;
  #turnEndBytes = 0;

  /** True if a body without an announced length has used up its turn. */
  get hadTurn(): boolean {
    return this.#fedBytes >= this.#turnEndBytes;
  }

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

  nextBytes(contentLength: number | undefined): number {
    const known = Math.min((contentLength ?? 0) - this.#fedBytes - BODY_END_SLICE_BYTES, BODY_SLICE_BYTES);
    return Math.max(known, BODY_END_SLICE_BYTES);
  }
}

export interface Wire {
  readonly reading: boolean;
  readonly clock: Clock;
  /** False while the client is behind in reading its answers. */
  readonly writable: boolean;
  /** Calls the side's `flush` at the end of this turn of the event loop. */
  wake(): void;
  request(request: HttpRequest): void;
  /** Calls `done` as soon as more may be written. */
  write(text: string | Buffer, encoding: BufferEncoding, done?: () => void): void;
  /** Stops calling `feed` until `resume` is called. */
  pause(): void;
  resume(): void;
  /** Stops reading, because the last answer has been made. `unread`: the client may still be sending. */
  stopReading(unread: boolean): void;
  /** Closes the connection after the last answer. `unread`: the client may still be sending. */
  end(unread: boolean): void;
  sayLast(fault: ProtocolFault): void;
  /** True if the connection closes after the answers that it owes. No further request may be handled. */
  readonly retiring: boolean;
  /** Closes the connection immediately, because the client is gone. */
  abort(): void;
}

export class NodeSide extends Duplex implements NodeRequestOwner {
  readonly #wire: Wire;
  readonly #standInLine: (side: NodeSide) => void;
  #turn: AnswerTurn = 'open';
  /** Input that node:http has not received yet. */
  #pending: Buffer = EMPTY;
  #state: InputState = 'open';
  /** True if node:http has asked for the next piece. */
  #takesMore = false;
  #feeding = false;
  /** The request being handled, until its whole answer is written. The requests after it are in `#waiting`. */
  #current: NodeRequest | undefined;
  readonly #waiting: NodeRequest[] = [];
  #requests: number;
  #latest: NodeRequest | undefined;
  readonly #bodySlices = new BodySlices();
  /** When the first byte of an unfinished head arrived. */
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

  /** Returns true if the bytes completed the head of a request. */
  feed(bytes: Buffer): boolean {
    assert(this.#state === 'open', 'bytes arrive before the client ends its side');
    if (this.#fault !== undefined) return false;
    const before = this.#requests;
    this.#pending = this.#pending.length === 0 ? bytes : Buffer.concat([this.#pending, bytes]);
    if (this.#turn === 'used') this.#turn = 'open'; // So a client that sends one request at a time never waits.
    this.#feed();
    return this.#requests > before;
  }

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
    // A request after the last one, or after the connection began to close, is dropped, because answering it would
    // trigger an assertion in node:http that ends the process.
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

  /** Notes that node:http cannot parse the next bytes. */
  faulty(fault: ProtocolFault | 'end of input'): void {
    if (this.#latest?.isLast !== true || !this.#latest.complete) this.#fault ??= fault;
    this.#pending = EMPTY;
    this.#wire.wake();
  }

  /** Called when node:http has read everything that the client sent before it ended its side. */
  readToItsEnd(): void {
    // If a body after `Upgrade` is cut short, node:http reports no error and waits for the rest forever.
    if (this.#latest?.complete === false) this.faulty('end of input');
  }

  answered(request: NodeRequest, close: boolean): void {
    assert(this.#current === request, 'the request that is served is answered');
    if (close) this.#wire.stopReading(!request.complete || request.isLast || this.#pending.length > 0);
  }

  /** Called by node:http after the last answer. */
  destroySoon(): void {
    this.#wire.end(this.#latest?.complete === false || this.#fault !== undefined);
  }

  override _read(): void {
    this.#takesMore = true;
    // A stream asks for the next piece before it has passed on the last one, so that piece is fed later.
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
    // A request whose body ends early gets no answer.
    if (isInBody && fault === 'end of input' && !latest.answered) this.#wire.end(false);
    else if (this.#current !== undefined) {
      if (isInBody) latest.fault(fault === 'end of input' ? 'malformed' : fault);
    } else if (isInBody) this.#wire.end(true);
    else this.#wire.sayLast(fault === 'end of input' ? 'malformed' : fault);
  }
}

const isNoLineEnd = (byte: number): boolean => byte !== 0x0d && byte !== 0x0a;
const EMPTY = Buffer.alloc(0);
