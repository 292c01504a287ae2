// Writes what is too long to be written at once: in pieces, the next one when the client has taken the last.
//
// Invariant: parts leave whole and in order. It writes to the socket for the connection that owns it, and does nothing
// else with it.
import type { Socket } from 'node:net';
import { assert } from './assert.ts';

/** Answers leave in pieces of about so many characters, the next one when the client has taken the last. */
export const PIECE_CHARACTERS = 65_536;

export class PieceWriter {
  readonly #socket: Socket;
  /** Not written to their end yet, oldest first; of the first one, what precedes `#sent` was. */
  readonly #parts: (string | Buffer)[] = [];
  #sent = 0;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  get empty(): boolean {
    return this.#parts.length === 0;
  }

  /** In bytes. */
  get unwritten(): number {
    return this.held - this.#sent;
  }

  /** How many bytes of memory the parts take: a part stays whole until its last byte is written. */
  get held(): number {
    return this.#parts.reduce((bytes, one) => bytes + one.length, 0);
  }

  write(part: string | Buffer, encoding: BufferEncoding): void {
    this.#parts.push(encoding === 'latin1' || typeof part !== 'string' ? part : Buffer.from(part, encoding));
    this.goOn();
  }

  /** Writes as much as the client takes now. */
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
      // A string that is in pieces is latin1.
      this.#socket.write(piece, 'latin1', isLast ? () => release(first) : undefined);
    }
  }

  /** The connection is closed: nothing is written any more. */
  clear(): void {
    for (const part of this.#parts) release(part);
    this.#parts.length = 0;
    this.#sent = 0;
  }
}

// Fact: V8 frees the memory of buffers when it collects garbage, for which 64 MB of them are no reason yet. Choice:
// what a large body stood in is freed when it has left, where it is memory that node lets go of (a Buffer of its own
// making is none). Effect: see test/end-to-end/connection-limits.test.ts.
function release(written: string | Buffer): void {
  if (typeof written === 'string' || !(written.buffer instanceof ArrayBuffer)) return;
  try {
    written.buffer.transfer(0);
  } catch {
    // The garbage collector has it.
  }
}
