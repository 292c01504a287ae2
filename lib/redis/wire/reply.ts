// The bytes of one RESP2 reply (redis.io/docs/reference/protocol-spec), and a reader for them.
//
// Fact: a client that creates a value for each part of a reply creates eight objects per entry, although the consumer
// needs only two. With their garbage, they took half of its thread. Choice: a reply stays bytes, and the caller,
// which knows its form, reads the parts that it needs. Effect: the bench case `landing`.

import assert from 'node:assert/strict';
import { RedisError } from './errors.ts';

export type RedisValue = string | number | null | readonly RedisValue[];

/** Converts a list of alternating names and values. */
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

/** Unlike memory from Node's pool, this memory is freed with its last view. */
const ownBlock = (bytes: number): Buffer => Buffer.from(new ArrayBuffer(bytes));

export class ReplyAssembler {
  #block = ownBlock(BLOCK_BYTES);
  #length = 0;
  #at = 0;
  /** The number of parts that the reply still lacks. */
  #missing = 1;

  /** Returns the replies that are complete. Throws if a part is not RESP2, because the rest could not be read. */
  push(piece: Buffer, bytes: number): (Reply | RedisError)[] {
    this.#makeRoom(bytes);
    this.#length += piece.copy(this.#block, this.#length, 0, bytes);
    const replies: (Reply | RedisError)[] = [];
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

  /** Returns true if the reply is complete. Each part is scanned once, however many pieces it arrives in. */
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
        throw new Error('the server sent bytes that are not RESP2');
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

  /** Returns the complete reply. Its parts are views, so a large reply takes over the block. */
  #take(): Reply | RedisError {
    assert(this.#missing === 0 && this.#at <= this.#length);
    const block = this.#block;
    const at = this.#at;
    const length = this.#length;
    let answer: Buffer;
    if (at < block.length / 2) {
      // Fact: a separate block costs more than the bytes of a short reply. Choice: Node's pool.
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
    return answer[0] === ERROR
      ? new RedisError(answer.toString('utf8', 1, answer.length - CRLF_BYTES))
      : new Reply(answer);
  }
}

/** One complete reply, read part by part. Each part must have the expected form. */
export class Reply {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  again(): Reply {
    return new Reply(this.#bytes);
  }

  value(): RedisValue {
    const kind = this.#bytes[this.#at];
    if (kind === INTEGER) return this.integer();
    if (kind === ARRAY || (kind === STRING && this.#bytes[this.#at + 1] === MINUS)) {
      const size = this.array();
      return size === undefined ? null : Array.from({ length: size }, () => this.value());
    }
    if (kind === STRING) return this.#string('utf8');
    const end = this.#bytes.indexOf(RETURN, this.#at);
    const line = this.#bytes.toString('utf8', this.#at + 1, end);
    this.#at = end + CRLF_BYTES;
    return line;
  }

  /** Enters an array and returns its length, or `undefined` for null, which has two encodings. */
  array(): number | undefined {
    const size = this.#size(this.#bytes[this.#at] === STRING && this.#bytes[this.#at + 1] === MINUS ? STRING : ARRAY);
    return size < 0 ? undefined : size;
  }

  integer(): number {
    return this.#size(INTEGER);
  }

  /** Reads a string, as a view of the reply. */
  bytes(): Buffer {
    const from = this.#passString();
    return this.#bytes.subarray(from, this.#at - CRLF_BYTES);
  }

  /** Reads a string of ASCII characters. */
  text(): string {
    return this.#string('latin1');
  }

  /** Skips the next part and returns true if it equals `wanted`; otherwise changes nothing. */
  passes(wanted: Uint8Array): boolean {
    const before = this.#at;
    if (this.#isAt(this.#passString(), wanted)) return true;
    this.#at = before;
    return false;
  }

  /** Skips a string and returns its index in `known`, or -1. */
  oneOf(known: readonly Uint8Array[]): number {
    const from = this.#passString();
    return known.findIndex((wanted) => this.#isAt(from, wanted));
  }

  #string(encoding: 'latin1' | 'utf8'): string {
    const from = this.#passString();
    return this.#bytes.toString(encoding, from, this.#at - CRLF_BYTES);
  }

  /** Skips a string and returns the position of its first byte. */
  #passString(): number {
    const size = this.#size(STRING);
    const from = this.#at;
    this.#at = from + size + CRLF_BYTES;
    return from;
  }

  /** True if the string that was skipped last begins at `from` and equals `wanted`. */
  #isAt(from: number, wanted: Uint8Array): boolean {
    if (this.#at - CRLF_BYTES - from !== wanted.length) return false;
    for (let at = 0; at < wanted.length; at += 1) if (this.#bytes[from + at] !== wanted[at]) return false;
    return true;
  }

  /** Reads the number in a part's first line: the length of a string or array, or an integer. */
  #size(kind: number): number {
    if (this.#bytes[this.#at] !== kind) throw new Error('the queue sent a reply of an unexpected form');
    const size = integerAt(this.#bytes, this.#at + 1);
    let at = this.#at;
    while (this.#bytes[at] !== RETURN) at += 1;
    this.#at = at + CRLF_BYTES;
    return size;
  }
}

function integerAt(bytes: Buffer, from: number): number {
  const negative = bytes[from] === MINUS;
  let value = 0;
  for (let at = negative ? from + 1 : from; bytes[at] !== RETURN; at += 1)
    value = 10 * value + ((bytes[at] ?? 0) - 0x30);
  return negative ? -value : value;
}
