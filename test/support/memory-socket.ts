// A TLS socket in memory. What our side writes waits until the client takes it. Like a socket of node it destroys
// itself once both sides have ended.
import { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';

export class MemorySocket extends Duplex {
  /** One character for each byte. */
  taken = '';
  /** `end` and `destroyed`. */
  readonly ends: string[] = [];
  /** Calls of the handle: `stopped` and `started`. */
  readonly readings: string[] = [];
  authorized = false;
  authorizationError: unknown = null;
  certificate: unknown = undefined;
  readonly _handle: { reading: boolean; readStop: () => void; readStart: () => void };
  #takes: boolean;
  #waiting: (() => void) | undefined;

  /** `takes`: the client takes all writes immediately. */
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

  /** `inBytes`: in pieces of one byte. */
  send(text: string, inBytes = false): void {
    for (const piece of inBytes ? text : [text]) this.push(Buffer.from(piece, 'latin1'));
  }

  /** A paused socket of node reports the end too. */
  sendEnd(): void {
    this.push(null);
    this.read(0);
  }

  takeOne(): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.();
  }

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
