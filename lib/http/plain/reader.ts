// Reads the plain requests of one connection, one at a time, from pieces of any length.
//
// Fact: an empty node:https server needs 78 µs per request. A server that reads and answers on the TLS socket itself
// needs 40 µs, so the other 38 µs are node's streams, timers and messages around the parser. Choice: plain requests
// are parsed here. The first request that is not plain hands the connection over to node:http, with every byte that
// has not been read yet.
//
// Invariants: no byte is lost, and the result does not depend on how the input is split. The owner of the reader
// limits the number of bytes that wait here.
import type { Clock } from '../../process/clock.ts';
import { assert } from '../assert.ts';
import { withPiece } from '../body-pieces.ts';
import type { BodyTaker, HttpRequest, RequestListener } from '../request.ts';
import { HeadReader, PLAIN_HEAD_BYTES_MAX, type PlainHead } from './head.ts';

/** Longer than nearly every head. A longer head is decoded a second time. */
const USUAL_HEAD_BYTES = 1_024;
const CR = 0x0d;
const LF = 0x0a;

export class PlainReader {
  readonly #head = new HeadReader();
  readonly #clock: Clock;
  readonly #bodyDecided: () => void;
  #bytes: Buffer = NOTHING;
  #at = 0;
  /** The beginning of a head, already removed from `#bytes`. */
  #begun = '';
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

  /** Number of waiting bytes, excluding an unfinished head. */
  get unread(): number {
    return this.#bytes.length - this.#at;
  }

  /** True if the beginning of a head has arrived, but not its end. */
  get inHead(): boolean {
    return this.#begun !== '' && this.#begun !== '\r';
  }

  get requests(): number {
    return this.#requests;
  }

  get bodySinceMs(): number | undefined {
    return this.#arriving?.startMs;
  }

  get headSinceMs(): number | undefined {
    return this.#headSinceMs;
  }

  /** True if no part of a later request has arrived. */
  get atEnd(): boolean {
    return !this.inHead && this.unread <= (this.#arriving?.bytesMissing ?? 0);
  }

  push(bytes: Buffer): void {
    this.#bytes = this.#at === this.#bytes.length ? bytes : Buffer.concat([this.#bytes.subarray(this.#at), bytes]);
    this.#at = 0;
  }

  /**
   * Continues reading, with the `bytes` that have just arrived. Returns the next request if it `mayBegin`, or `body`
   * if the arriving body is now complete. `more` means that nothing can be returned before more input arrives, a
   * handler decides about the body, or the next request `mayBegin`.
   */
  next(bytes: Buffer | undefined, mayBegin: boolean): PlainRequest | 'body' | 'more' | 'not plain' {
    if (bytes !== undefined) this.push(bytes);
    if (this.#arriving !== undefined) return this.#readBody(this.#arriving) ? 'body' : 'more';
    if (!mayBegin) return 'more';
    const head = this.#nextHead();
    if (typeof head === 'string') {
      if (!this.inHead) this.#headSinceMs = undefined;
      else this.#headSinceMs ??= this.#clock.ms();
      return head;
    }
    const announced = head.contentLength ?? 0;
    const body = announced <= this.unread ? this.#take(announced) : undefined;
    const startMs = body === undefined ? (this.#headSinceMs ?? this.#clock.ms()) : 0;
    const request = new PlainRequest(head, body, startMs, this.#bodyDecided);
    this.#headSinceMs = undefined;
    this.#requests += 1;
    if (body === undefined) this.#arriving = request;
    return request;
  }

  rest(): Buffer {
    const unread = this.#take(this.unread);
    const rest = this.#begun === '' ? unread : Buffer.concat([Buffer.from(this.#begun, 'latin1'), unread]);
    this.#bytes = NOTHING;
    this.#at = 0;
    this.#begun = '';
    this.#headSinceMs = undefined;
    return rest;
  }

  stop(): void {
    this.rest();
  }

  /** Reports that the arriving body is late. Returns false if its request already has an answer. */
  late(): boolean {
    return this.#arriving?.listener?.fault('timeout') ?? false;
  }

  /** Gives up the arriving body, because the rest of it will not arrive. */
  cut(): void {
    this.#arriving?.cut();
    this.#arriving = undefined;
  }

  close(): void {
    this.stop();
    this.cut();
  }

  /** Returns false while part of the body is missing, or while the handler has not decided whether to read it. */
  #readBody(arriving: PlainRequest): boolean {
    const bytes = Math.min(arriving.bytesMissing, this.unread);
    if (!arriving.takesBody || bytes === 0) return false;
    arriving.take(this.#take(bytes));
    if (!arriving.complete) return false;
    this.#arriving = undefined;
    return true;
  }

  #take(bytes: number): Buffer {
    if (bytes === 0) return NOTHING;
    this.#at += bytes;
    return this.#bytes.subarray(this.#at - bytes, this.#at);
  }

  #nextHead(): PlainHead | 'more' | 'not plain' {
    this.#skipEmptyLines();
    if (this.unread === 0) return 'more';
    const { length } = this.#begun;
    let head = this.#readHead(USUAL_HEAD_BYTES);
    if (head === 'unfinished' && length + this.unread > USUAL_HEAD_BYTES) head = this.#readHead(PLAIN_HEAD_BYTES_MAX);
    if (head === 'not plain') return head;
    if (head === 'unfinished') {
      if (length + this.unread >= PLAIN_HEAD_BYTES_MAX) return 'not plain';
      this.#begun += this.#bytes.toString('latin1', this.#at);
      this.#at = this.#bytes.length;
      return 'more';
    }
    this.#at += head.bytes - length;
    this.#begun = '';
    return head;
  }

  /** Continues parsing the unfinished head, up to `headBytesMax` bytes in total. */
  #readHead(headBytesMax: number): PlainHead | 'unfinished' | 'not plain' {
    const more = this.#bytes.toString('latin1', this.#at, this.#at + Math.max(0, headBytesMax - this.#begun.length));
    return this.#head.read(this.#begun === '' ? more : this.#begun + more);
  }

  /** Skips empty lines before a request (RFC 9112, section 2.2). */
  #skipEmptyLines(): void {
    const bytes = this.#bytes;
    for (;;) {
      if (this.#begun === '\r' && bytes[this.#at] === LF) {
        this.#begun = '';
        this.#at += 1;
      } else if (this.#begun === '' && bytes[this.#at] === CR && bytes[this.#at + 1] === LF) {
        this.#at += 2;
      } else {
        if (this.#begun !== '' || bytes[this.#at] !== CR || this.#at + 1 !== bytes.length) return;
        this.#begun = '\r';
        this.#at += 1;
        return;
      }
    }
  }
}

export class PlainRequest implements HttpRequest {
  readonly head: PlainHead;
  body: Buffer | undefined;
  /** When the first byte of the request arrived, by `Clock.ms()`; 0 if the request arrived whole. */
  readonly startMs: number;
  listener: RequestListener | undefined;
  gone = false;
  /** The response, or its head if the body is in `answerBody`. The connection sets this and the next three fields. */
  answer: string | undefined;
  answerBody: readonly Buffer[] = NO_PARTS;
  answerIsAscii = true;
  closes = false;
  readonly #bodyDecided: () => void;
  #missing: number;
  /** The part of the body that has arrived, in a buffer that may have room for the rest. */
  #read: Buffer | undefined;
  #taker: BodyTaker | undefined;
  #use: 'undecided' | 'wanted' | 'abandoned' = 'undecided';

  /** `body` is `undefined` if part of it has not arrived. */
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

  /** True once the handler has decided to read or to discard the body. */
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

  /** Discards the rest of the body, because the request has been answered. */
  abandonBody(): void {
    if (this.#missing === 0 || this.#use === 'abandoned') return;
    this.#read = undefined;
    this.#use = 'abandoned';
    this.#bodyDecided();
  }

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
