// Reads the plain requests of one connection, one at a time, from whatever pieces its bytes arrive in.
//
// Fact: of the 78 µs that an empty node:https server needs for a request, 38 are node's streams, timers and messages
// around the parser, not TLS or the kernel (a server that reads and answers on the socket: 40 µs). Choice: plain
// requests are read here. The first one that is not plain hands the connection to node:http for good, with every byte
// that was not read yet.
import type { Clock } from '../../process/clock.ts';
import { assert } from '../assert.ts';
import { withPiece } from '../body-pieces.ts';
import type { BodyTaker, HttpRequest, RequestListener } from '../request.ts';
import { PlainParser, type PlainHead } from './parser.ts';

export class PlainReader {
  readonly #parser = new PlainParser();
  readonly #clock: Clock;
  readonly #bodyDecided: () => void;
  /** The request whose body has not arrived completely. */
  #arriving: PlainRequest | undefined;
  #requests = 0;
  #headSinceMs: number | undefined;

  /** `bodyDecided` is called when a handler has decided to read or to abandon a body that is arriving. */
  constructor(clock: Clock, bodyDecided: () => void) {
    this.#clock = clock;
    this.#bodyDecided = bodyDecided;
  }

  get arriving(): PlainRequest | undefined {
    return this.#arriving;
  }

  /** Bytes that wait here, without an unfinished head. */
  get unread(): number {
    return this.#parser.unread;
  }

  get inHead(): boolean {
    return this.#parser.inHead;
  }

  /** Requests that have arrived. */
  get requests(): number {
    return this.#requests;
  }

  /** When the request began whose body is arriving. */
  get bodySinceMs(): number | undefined {
    return this.#arriving?.startMs;
  }

  /** When the first byte of the unfinished head arrived. */
  get headSinceMs(): number | undefined {
    return this.#headSinceMs;
  }

  /** Nothing of a later request has arrived. */
  get atEnd(): boolean {
    return !this.#parser.inHead && this.#parser.unread <= (this.#arriving?.bytesMissing ?? 0);
  }

  push(bytes: Buffer): void {
    this.#parser.push(bytes);
  }

  /**
   * Passes on the bytes of the arriving body. Returns false while some of it, or its handler's decision, is missing.
   */
  readBody(): boolean {
    const arriving = this.#arriving;
    const part = arriving?.takesBody === true ? this.#parser.body() : undefined;
    if (arriving === undefined || part === undefined) return false;
    arriving.take(part);
    if (!arriving.complete) return false;
    this.#arriving = undefined;
    return true;
  }

  /** The next request. Not to be called while a body arrives. */
  next(): PlainRequest | 'more' | 'not plain' {
    assert(this.#arriving === undefined, 'one body arrives at a time');
    const head = this.#parser.next();
    if (typeof head === 'string') {
      if (!this.#parser.inHead) this.#headSinceMs = undefined;
      else this.#headSinceMs ??= this.#clock.ms();
      return head;
    }
    const announced = head.contentLength ?? 0;
    const body = announced === 0 ? NOTHING : this.#parser.wholeBody();
    const startMs = body === undefined ? (this.#headSinceMs ?? this.#clock.ms()) : 0;
    const request = new PlainRequest(head, body, startMs, this.#bodyDecided);
    this.#headSinceMs = undefined;
    this.#requests += 1;
    if (body === undefined) this.#arriving = request;
    return request;
  }

  /** Takes everything that waits here. */
  rest(): Buffer {
    this.#headSinceMs = undefined;
    return this.#parser.rest();
  }

  stop(): void {
    this.rest();
  }

  /** The body that is arriving did not arrive in time. Returns false if its request was answered before. */
  late(): boolean {
    return this.#arriving?.listener?.fault('timeout') ?? false;
  }

  /** The rest of the body that is arriving will not arrive. */
  cut(): void {
    this.#arriving?.cut();
    this.#arriving = undefined;
  }

  close(): void {
    this.stop();
    this.cut();
  }
}

export class PlainRequest implements HttpRequest {
  readonly head: PlainHead;
  body: Buffer | undefined;
  /** When its first byte arrived, by `Clock.ms()`; 0 for a request that arrived whole. */
  readonly startMs: number;
  listener: RequestListener | undefined;
  gone = false;
  /** The whole response, or its head if the body is bytes; set by the connection, as are its other parts. */
  answer: string | undefined;
  answerBody: readonly Buffer[] = NO_PARTS;
  answerIsAscii = true;
  /** The connection ends after the answer. */
  closes = false;
  readonly #bodyDecided: () => void;
  #missing: number;
  /** The arrived part of the body, in a buffer that may have room for the rest. */
  #read: Buffer | undefined;
  #taker: BodyTaker | undefined;
  #use: 'undecided' | 'wanted' | 'abandoned' = 'undecided';

  /** `body` is `undefined` while parts of it are missing. */
  constructor(head: PlainHead, body: Buffer | undefined, startMs: number, bodyDecided: () => void) {
    this.head = head;
    this.body = body;
    this.startMs = startMs;
    this.#missing = body === undefined ? (head.contentLength ?? 0) : 0;
    this.#bodyDecided = bodyDecided;
  }

  get complete(): boolean {
    return this.#missing === 0;
  }

  get bytesMissing(): number {
    return this.#missing;
  }

  /** The handler reads the next part of the body, or throws it away. */
  get takesBody(): boolean {
    return this.#use !== 'undecided';
  }

  restMayExceed(bytes: number): boolean {
    return this.#missing > bytes;
  }

  receive(bytesMax: number, taker: BodyTaker): void {
    assert(this.#missing > 0 && this.#taker === undefined, 'a body that is missing has one taker');
    this.#taker = taker;
    if (this.#missing > bytesMax) {
      this.abandonBody();
      taker.bodyRead('too large');
    } else {
      this.#use = 'wanted';
      this.#bodyDecided();
    }
  }

  /** The next part of the body has arrived. */
  take(part: Buffer): void {
    assert(part.length <= this.#missing, 'a part of a body is no longer than the rest of it');
    assert(this.takesBody, 'a part of a body is taken once its use is decided');
    const announced = this.head.contentLength ?? 0;
    const before = announced - this.#missing;
    this.#missing -= part.length;
    if (this.#use !== 'wanted') return;
    const body = this.#read === undefined ? part : withPiece(this.#read, before, part, announced);
    this.#read = this.#missing > 0 ? body : undefined;
    if (this.#missing > 0) return;
    this.#use = 'abandoned';
    this.#taker?.bodyRead(body);
  }

  /** An answer was made: the rest of the body is thrown away. */
  abandonBody(): void {
    if (this.#missing === 0 || this.#use === 'abandoned') return;
    this.#read = undefined;
    this.#use = 'abandoned';
    this.#bodyDecided();
  }

  /** The rest of the body will not arrive. */
  cut(): void {
    const wanted = this.#use === 'wanted';
    this.#use = 'abandoned';
    this.#read = undefined;
    this.gone = true;
    if (wanted) this.listener?.aborted();
  }
}

const NOTHING = Buffer.alloc(0);
const NO_PARTS: readonly Buffer[] = [];
