// Takes plain requests out of the bytes of a connection, in whatever pieces they come.
//
// It is asked for one request at a time, so that its owner decides how many are under way; what was not asked for yet
// waits here. Invariants: no byte is lost (`rest` gives all that was not given as a head or a body); the cut of the
// input changes nothing in the output. It knows no socket. Limits: PLAIN_HEAD_BYTES_MAX for a head; its owner bounds
// what waits.
import { assert } from '../assert.ts';
import { HeadReader, PLAIN_HEAD_BYTES_MAX, type PlainHead } from './head.ts';

/** Longer than nearly every head. Decoding more would only make garbage; a longer head is decoded again. */
const USUAL_HEAD_BYTES = 1_024;

export class PlainParser {
  readonly #reader = new HeadReader();
  #bytes: Buffer = EMPTY;
  #at = 0;
  /** The beginning of a head, already taken off `#bytes`. */
  #begun = '';
  /** How much of the body of the request given last was not given yet. */
  #bodyBytes = 0;

  /** How many bytes wait here, the beginning of a head left out. */
  get unread(): number {
    return this.#bytes.length - this.#at;
  }

  /** The beginning of a head has come, and not its end. */
  get inHead(): boolean {
    return this.#begun !== '' && this.#begun !== '\r';
  }

  push(chunk: Buffer): void {
    this.#bytes = this.#at === this.#bytes.length ? chunk : Buffer.concat([this.#bytes.subarray(this.#at), chunk]);
    this.#at = 0;
  }

  /** The next request. Its body, if it announces one, is to be taken with `body` before the next call. */
  next(): PlainHead | 'more' | 'not plain' {
    assert(this.#bodyBytes === 0, 'the body of the request before was taken');
    this.#skipEmptyLines();
    if (this.#at === this.#bytes.length) return 'more';
    const { length } = this.#begun;
    let head = this.#read(USUAL_HEAD_BYTES);
    if (head === 'unfinished' && length + this.#bytes.length - this.#at > USUAL_HEAD_BYTES) {
      head = this.#read(PLAIN_HEAD_BYTES_MAX);
    }
    if (head === 'unfinished') {
      if (length + this.#bytes.length - this.#at >= PLAIN_HEAD_BYTES_MAX) return 'not plain';
      this.#begun += this.#bytes.toString('latin1', this.#at);
      this.#at = this.#bytes.length;
      return 'more';
    }
    if (head === 'not plain') return head;
    this.#at += head.bytes - length;
    this.#begun = '';
    this.#bodyBytes = head.contentLength ?? 0;
    return head;
  }

  /** The body of the request given last, if all of it waits here. */
  wholeBody(): Buffer | undefined {
    return this.unread < this.#bodyBytes ? undefined : this.body();
  }

  /** The next part of the body of the request given last; undefined where nothing of it waits here. */
  body(): Buffer | undefined {
    const end = Math.min(this.#at + this.#bodyBytes, this.#bytes.length);
    if (end === this.#at) return undefined;
    const part = this.#bytes.subarray(this.#at, end);
    this.#bodyBytes -= part.length;
    assert(this.#bodyBytes >= 0, 'a body is no longer than it announced');
    this.#at = end;
    return part;
  }

  /** Everything that waits here, which is the caller's from now on. */
  rest(): Buffer {
    const unread = this.#bytes.subarray(this.#at);
    const rest = this.#begun === '' ? unread : Buffer.concat([Buffer.from(this.#begun, 'latin1'), unread]);
    this.#bytes = EMPTY;
    this.#at = 0;
    this.#begun = '';
    this.#bodyBytes = 0;
    return rest;
  }

  /** Reads on in the head that has begun, up to so many bytes of it. */
  #read(headBytesMax: number): PlainHead | 'unfinished' | 'not plain' {
    const more = this.#bytes.toString('latin1', this.#at, this.#at + Math.max(0, headBytesMax - this.#begun.length));
    return this.#reader.read(this.#begun === '' ? more : this.#begun + more);
  }

  /** An empty line before a request is passed over (RFC 9112, section 2.2). */
  #skipEmptyLines(): void {
    const bytes = this.#bytes;
    for (;;) {
      if (this.#begun === '\r' && bytes[this.#at] === LF) {
        this.#begun = '';
        this.#at += 1;
      } else if (this.#begun === '' && bytes[this.#at] === CR && bytes[this.#at + 1] === LF) {
        this.#at += 2;
      } else if (this.#begun === '' && bytes[this.#at] === CR && this.#at + 1 === bytes.length) {
        this.#begun = '\r';
        this.#at += 1;
        return;
      } else {
        return;
      }
    }
  }
}

const CR = 0x0d;
const LF = 0x0a;
const EMPTY = Buffer.alloc(0);
