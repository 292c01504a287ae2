// A TLS socket in memory. Data written by the server waits until the client accepts it. Like Node's sockets, it
// destroys itself after both sides have ended.
import { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';

export class MemorySocket extends Duplex {
  /** The accepted bytes as latin1. */
  taken = '';
  readonly ends: string[] = [];
  readonly readings: string[] = [];
  authorized = false;
  authorizationError: unknown = null;
  certificate: unknown = undefined;
  readonly _handle: { reading: boolean; readStop: () => void; readStart: () => void };
  #takes: boolean;
  #waiting: (() => void) | undefined;

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

  /** Sends text to the server. If `inBytes` is true, each byte arrives separately. */
  send(text: string, inBytes = false): void {
    for (const piece of inBytes ? text : [text]) this.push(Buffer.from(piece, 'latin1'));
  }

  /** Ends the client's side. As with Node's sockets, the end is reported even if the socket is paused. */
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
