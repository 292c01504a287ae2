// A TLS socket in memory: what our side writes waits until the client takes it, and what becomes of the socket is kept.
// Like node's own it destroys itself once both sides have ended.
import { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';

export class MemorySocket extends Duplex {
  /** What the client has taken, one character for each byte. */
  taken = '';
  /** `end`: our side has ended; `destroyed`. */
  readonly ends: string[] = [];
  /** What its handle was told: `stopped` and `started`. */
  readonly readings: string[] = [];
  authorized = false;
  authorizationError: unknown = null;
  certificate: unknown = undefined;
  readonly _handle: { reading: boolean; readStop: () => void; readStart: () => void };
  #takes: boolean;
  #waiting: (() => void) | undefined;

  /** `takes`: the client takes what is written at once. */
  constructor(takes = true) {
    super({ allowHalfOpen: true, decodeStrings: false });
    this.#takes = takes;
    this._handle = {
      reading: true,
      readStop: () => void this.readings.push('stopped'),
      readStart: () => void this.readings.push('started'),
    };
  }

  get asTls(): TLSSocket {
    return this as unknown as TLSSocket;
  }

  getPeerX509Certificate(): unknown {
    return this.certificate;
  }

  /** The client sends; in pieces of one byte each where `inBytes`. */
  send(text: string, inBytes = false): void {
    for (const piece of inBytes ? text : [text]) this.push(Buffer.from(piece, 'latin1'));
  }

  /** The client ends its side. As by a socket of node's, that is told also to who has paused it. */
  sendEnd(): void {
    this.push(null);
    this.read(0);
  }

  /** The client takes one write. */
  takeOne(): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.();
  }

  /** The client takes everything from now on. */
  takeAll(): void {
    this.#takes = true;
    this.takeOne();
  }

  destroySoon(): void {
    this.end(() => this.destroy());
  }

  override _read(): void {}

  override _write(chunk: string | Buffer, encoding: BufferEncoding, done: () => void): void {
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk;
    this.#waiting = () => {
      this.taken += bytes.toString('latin1');
      done();
    };
    if (this.#takes) this.takeOne();
  }

  override _final(done: () => void): void {
    this.ends.push('end');
    done();
  }

  override _destroy(cause: Error | null, done: (cause: Error | null) => void): void {
    this.ends.push('destroyed');
    done(cause);
  }
}
