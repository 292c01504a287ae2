// Writes long answers in pieces, each after the client has read the previous one. Parts are written in order.
import type { Socket } from 'node:net';
import { assert } from './assert.ts';

export const PIECE_CHARACTERS = 65_536;

export class PieceWriter {
  readonly #socket: Socket;
  /** Unfinished parts, oldest first. The first `#sent` characters or bytes of the first one have been written. */
  readonly #parts: (string | Buffer)[] = [];
  #sent = 0;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  get empty(): boolean {
    return this.#parts.length === 0;
  }

  get unwritten(): number {
    return this.held - this.#sent;
  }

  /** Bytes of memory that the parts use. A part stays in memory until its last byte is written. */
  get held(): number {
    return this.#parts.reduce((bytes, one) => bytes + one.length, 0);
  }

  write(part: string | Buffer, encoding: BufferEncoding): void {
    this.#parts.push(encoding === 'latin1' || typeof part !== 'string' ? part : Buffer.from(part, encoding));
    this.goOn();
  }

  goOn(): void {
    while (!this.#socket.writableNeedDrain && this.#socket.writable) {
      const [first] = this.#parts;
      if (first === undefined) return;
      const [from, to] = [this.#sent, this.#sent + PIECE_CHARACTERS];
      const piece = typeof first === 'string' ? first.slice(from, to) : first.subarray(from, to);
      this.#sent += piece.length;
      assert(this.#sent <= first.length, 'no more than the part is written of it');
      const isLast = this.#sent === first.length;
      if (isLast) {
        this.#parts.shift();
        this.#sent = 0;
      }
      // Every string in `#parts` is latin1.
      this.#socket.write(piece, 'latin1', isLast ? () => release(first) : undefined);
    }
  }

  clear(): void {
    for (const part of this.#parts) release(part);
    this.#parts.length = 0;
    this.#sent = 0;
  }
}

// Fact: V8 frees buffers only when it collects garbage, and 64 MB of buffers do not trigger a collection. Choice:
// free the memory of a large body as soon as it has been sent (test/end-to-end/connection-limits.test.ts).
function release(written: string | Buffer): void {
  if (typeof written === 'string' || !(written.buffer instanceof ArrayBuffer)) return;
  try {
    written.buffer.transfer(0);
  } catch {
    // Node does not let this memory be transferred. The garbage collector frees it.
  }
}
