// The bytes of one answer of Redis (RESP2, redis.io/docs/reference/protocol-spec), and a reader that goes through them.
//
// Fact: a client that makes a value of each part of an answer makes eight objects for an entry of a stream, of which
// the consumer needs two; that and its garbage took half of a consumer's thread. Choice: an answer stays as the bytes
// it came in, and the caller, who knows its form, takes from it what is needed. Effect: the bench case `landing`.

import assert from 'node:assert/strict';
import { RedisError } from './errors.ts';

/** An answer, or a part of one, as a value. */
export type RedisValue = string | number | null | readonly RedisValue[];

/** Alternating names and values, as Redis answers with. */
export function fieldsOf(list: readonly RedisValue[]): ReadonlyMap<string, RedisValue> {
  const fields = new Map<string, RedisValue>();
  for (let at = 0; at + 1 < list.length; at += 2) fields.set(String(list[at]), list[at + 1] ?? null);
  return fields;
}

const STRING = 0x24; // $
const ARRAY = 0x2a; // *
const ERROR = 0x2d; // -
const INTEGER = 0x3a; // :
const MINUS = 0x2d;
const STATUS = 0x2b; // +
const RETURN = 0x0d;
const CRLF_BYTES = 2;
const BLOCK_BYTES = 256 << 10;

/** Memory that the holder of the answer may free, which a Buffer of node's making is not. */
const ownBlock = (bytes: number): Buffer => Buffer.from(new ArrayBuffer(bytes));

/** Puts together the answers that come in as pieces of any size. */
export class ReplyAssembler {
  #block = ownBlock(BLOCK_BYTES);
  #length = 0;
  /** Up to here the answer has been looked through. */
  #at = 0;
  /** Parts of the answer that are not whole yet. */
  #missing = 1;

  /**
   * Takes the first `bytes` of a piece, whose memory may be used for something else afterwards, and gives the answers
   * that are whole now. Throws at a part of a kind that RESP2 does not have: nothing behind it can be read.
   */
  push(piece: Buffer, bytes: number): Reply[] {
    this.#makeRoom(bytes);
    this.#length += piece.copy(this.#block, this.#length, 0, bytes);
    const replies: Reply[] = [];
    while (this.#length > 0 && this.#whole()) replies.push(this.#take());
    return replies;
  }

  #makeRoom(bytes: number): void {
    const wanted = this.#length + bytes;
    if (wanted <= this.#block.length) return;
    const larger = ownBlock(Math.max(2 * this.#block.length, wanted));
    larger.set(this.#block.subarray(0, this.#length));
    this.#block = larger;
  }

  /** Looks further through the answer; each part is looked at once, however many pieces it comes in. */
  #whole(): boolean {
    const block = this.#block;
    const length = this.#length;
    let at = this.#at;
    let missing = this.#missing;
    while (missing > 0) {
      let next = at + 1;
      while (next < length && block[next] !== RETURN) next += 1;
      next += CRLF_BYTES;
      if (next > length) break;
      const kind = block[at];
      if (kind !== STRING && kind !== ARRAY && kind !== INTEGER && kind !== STATUS && kind !== ERROR)
        throw new Error('the server sent what is no answer of RESP2');
      const size = kind === STRING || kind === ARRAY ? integerAt(block, at + 1) : 0;
      if (kind === STRING && size >= 0) next += size + CRLF_BYTES;
      if (next > length) break;
      missing += kind === ARRAY && size > 0 ? size - 1 : -1;
      at = next;
    }
    this.#at = at;
    this.#missing = missing;
    return missing === 0;
  }

  /** The answer that is whole. What is made of it are views, so it keeps the block's memory if it fills most of it. */
  #take(): Reply {
    assert(this.#missing === 0 && this.#at <= this.#length);
    const block = this.#block;
    const at = this.#at;
    const length = this.#length;
    let answer: Buffer;
    if (at < block.length / 2) {
      // Fact: a block of its own costs more than a short answer's bytes. Choice: Node's pool gives those.
      answer = Buffer.allocUnsafe(at);
      block.copy(answer, 0, 0, at);
      if (length > at) block.copyWithin(0, at, length);
    } else {
      answer = block.subarray(0, at);
      this.#block = ownBlock(Math.max(BLOCK_BYTES, length - at));
      block.copy(this.#block, 0, at, length);
    }
    this.#length = length - at;
    this.#at = 0;
    this.#missing = 1;
    return new Reply(answer);
  }
}

/** One whole answer, read part by part from its beginning. What is read must have the form that is asked for. */
export class Reply {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** The same answer, from its beginning. */
  again(): Reply {
    return new Reply(this.#bytes);
  }

  /** The error that this answer is, if it is one. */
  get error(): RedisError | undefined {
    return this.#bytes[0] === ERROR
      ? new RedisError(this.#bytes.toString('utf8', 1, this.#bytes.length - CRLF_BYTES))
      : undefined;
  }

  /** The next part as a value, whatever its form: for answers that are small and rare. */
  value(): RedisValue {
    const kind = this.#bytes[this.#at];
    if (kind === INTEGER) return this.integer();
    if (kind === ARRAY || (kind === STRING && this.#bytes[this.#at + 1] === MINUS)) {
      const size = this.array();
      return size === undefined ? null : Array.from({ length: size }, () => this.value());
    }
    if (kind === STRING) return this.utf8();
    const end = this.#bytes.indexOf(RETURN, this.#at);
    const line = this.#bytes.toString('utf8', this.#at + 1, end);
    this.#at = end + CRLF_BYTES;
    return line;
  }

  /** Whether the next part is a string. */
  get isString(): boolean {
    return this.#bytes[this.#at] === STRING && this.#bytes[this.#at + 1] !== MINUS;
  }

  /** Enters an array and gives the number of its elements; undefined for none at all, which Redis says in two ways. */
  array(): number | undefined {
    const size = this.#size(this.#bytes[this.#at] === STRING && this.#bytes[this.#at + 1] === MINUS ? STRING : ARRAY);
    return size < 0 ? undefined : size;
  }

  integer(): number {
    return this.#size(INTEGER);
  }

  /** A string's bytes, as a view of the answer's. */
  bytes(): Buffer {
    const size = this.#size(STRING);
    const from = this.#at;
    this.#at = from + size + CRLF_BYTES;
    return this.#bytes.subarray(from, from + size);
  }

  /** Skips the next part if it is `wanted`, and tells whether it was. */
  passes(wanted: Uint8Array): boolean {
    const before = this.#at;
    const size = this.#size(STRING);
    if (size !== wanted.length || !this.#holds(wanted, this.#at)) {
      this.#at = before;
      return false;
    }
    this.#at += size + CRLF_BYTES;
    return true;
  }

  /** A string of ASCII. */
  text(): string {
    const size = this.#size(STRING);
    const from = this.#at;
    this.#at = from + size + CRLF_BYTES;
    return this.#bytes.toString('latin1', from, from + size);
  }

  /** A string of UTF-8. */
  utf8(): string {
    return this.bytes().toString('utf8');
  }

  /** Passes a string over, and tells which of `known` it is; -1 for none. */
  oneOf(known: readonly Uint8Array[]): number {
    const size = this.#size(STRING);
    const from = this.#at;
    this.#at = from + size + CRLF_BYTES;
    return known.findIndex((wanted) => wanted.length === size && this.#holds(wanted, from));
  }

  #holds(wanted: Uint8Array, from: number): boolean {
    for (let at = 0; at < wanted.length; at += 1) if (this.#bytes[from + at] !== wanted[at]) return false;
    return true;
  }

  /** The number in a part's first line, which is its length where the part has one. */
  #size(kind: number): number {
    if (this.#bytes[this.#at] !== kind) throw new Error('the queue answers in a form that is not known');
    const size = integerAt(this.#bytes, this.#at + 1);
    let at = this.#at;
    while (this.#bytes[at] !== RETURN) at += 1;
    this.#at = at + CRLF_BYTES;
    return size;
  }
}

/** The integer at `from`, up to the line's end. */
function integerAt(bytes: Buffer, from: number): number {
  const negative = bytes[from] === MINUS;
  let value = 0;
  for (let at = negative ? from + 1 : from; bytes[at] !== RETURN; at += 1)
    value = 10 * value + ((bytes[at] ?? 0) - 0x30);
  return negative ? -value : value;
}
