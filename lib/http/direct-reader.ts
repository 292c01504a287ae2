// Reads plain requests straight off a TLS connection and writes their answers straight back.
//
// Fact: of 78 µs that an empty node:https server uses for a request, 38 are node's streams, timers and messages around the
// parser, not TLS or the kernel (a server that reads and answers on the socket: 40 µs). Choice: requests that
// request-head.ts calls plain are read here; at the first one that is not, the connection goes to node:http for good, with
// every byte that was not read yet.
//
// States: reading (perhaps with the beginning of a head that is unfinished) → held (bytes wait: too many answers are owed or
// unread, or a body is not wanted yet) → reading …; leaving (the next request is node:http's; the answers owed before it
// come first) → left; closing (the last answer said so; what still comes is thrown away).
//
// Invariants: what is held is bounded by one read of the socket: while bytes wait, the socket is paused. Nothing that has come is lost: held bytes are read, handed over, or the connection
// has said that it closes.
import type { TLSSocket } from 'node:tls';
import { DirectRequest } from './direct-request.ts';
import type { Outbox } from './outbox.ts';
import { OwedAnswers } from './owed-answers.ts';
import { PLAIN_HEAD_BYTES_MAX, readHead, type RequestHead } from './request-head.ts';

/** More than nearly every head has; what is decoded and not needed is garbage, and longer ones are decoded again. */
const USUAL_HEAD_BYTES = 1_024;

export interface DirectReaderOptions {
  readonly socket: TLSSocket;
  readonly outbox: Outbox;
  /** The header lines that say how long the connection may idle. */
  readonly keepAlive: string;
  request(request: DirectRequest): void;
  /** The client ended its side in the middle of a head, and nothing else is owed. */
  cutOff(): void;
  /** The connection has become node:http's: `rest` is what came and was not read; `ended`: 'end' came behind it. */
  left(rest: Buffer, ended: boolean): void;
}

export class DirectReader {
  readonly keepAlive: string;
  gone = false;
  /** How many requests have come, as a mark of life. */
  requests = 0;
  readonly #options: DirectReaderOptions;
  readonly #socket: TLSSocket;
  readonly #outbox: Outbox;
  readonly #owed: OwedAnswers;
  /** The one whose body is still to come. */
  #arriving: DirectRequest | undefined;
  #held: Buffer | undefined;
  /** The beginning of a head. */
  #unfinished: Buffer | undefined;
  #unfinishedSinceMs: number | undefined;
  #reading = false;
  /** Behind the request that is being handled there are more bytes in the same read. */
  #more = false;
  #leaving = false;
  #left = false;
  #closing = false;
  #ended = false;
  /** In the outbox already. */
  due = false;

  constructor(options: DirectReaderOptions) {
    this.#options = options;
    this.#socket = options.socket;
    this.#outbox = options.outbox;
    this.#owed = new OwedAnswers(options.socket);
    this.keepAlive = options.keepAlive;
    this.#socket.on('data', this.#onData);
    this.#socket.on('end', this.#onEnd);
    this.#socket.on('drain', this.#onDrain);
    this.#socket.on('close', this.#onClose);
    this.#socket.on('error', ignore);
  }

  /** An answer is owed or on its way, or a request is under way. */
  get busy(): boolean {
    return (
      this.#owed.any || this.#arriving !== undefined || this.#held !== undefined || this.#socket.writableLength > 0
    );
  }

  /** The last request that has come; undefined while bytes behind it wait to be read. */
  get latest(): DirectRequest | undefined {
    return this.#more || this.#unfinished !== undefined || (this.#held !== undefined && this.#arriving === undefined)
      ? undefined
      : this.#owed.newest;
  }

  /** The next answer is owed and not made yet. */
  get owing(): boolean {
    const { oldest } = this.#owed;
    return oldest !== undefined && oldest.answer === undefined;
  }

  /** When the head that is arriving began to, by `performance.now()`; undefined where none is. */
  get unfinishedSinceMs(): number | undefined {
    return this.#unfinishedSinceMs;
  }

  /** When the body that is arriving began to, by `performance.now()`; undefined where none is. */
  get arrivingSinceMs(): number | undefined {
    return this.#arriving?.arrivingSinceMs;
  }

  /** Somebody wants the body that is arriving, or nobody does any more. */
  wanted(): void {
    if (!this.#reading) this.#outbox.add(this);
  }

  answered(request: DirectRequest): void {
    if (request.closes) this.#closing = true;
    this.#outbox.add(this);
  }

  /** Nothing more is read; the answers that are owed still leave. */
  stopReading(): void {
    this.#closing = true;
    this.#held = undefined;
    this.#unfinished = undefined;
  }

  /** Writes the answers that are ready, then reads on where that was waited for. */
  flush(): void {
    this.due = false;
    if (this.gone || this.#left) return;
    this.#owed.write();
    if (this.#held !== undefined && !this.#owed.full && (this.#arriving?.wanted ?? true)) this.#readHeld();
    this.#settleEnd();
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#closing) return;
    if (this.#held !== undefined) {
      this.#held = Buffer.concat([this.#held, chunk]);
    } else if (this.#unfinished !== undefined) {
      const whole = Buffer.concat([this.#unfinished, chunk]);
      this.#unfinished = undefined;
      this.#read(whole);
    } else {
      this.#read(chunk);
    }
  };

  #readHeld(): void {
    const held = this.#held;
    if (held === undefined || this.#leaving) return;
    this.#held = undefined;
    this.#read(held);
    if (this.#held === undefined && !this.#leaving) this.#socket.resume();
  }

  #read(chunk: Buffer): void {
    this.#reading = true;
    let at = 0;
    while (at < chunk.length && !this.#closing) {
      if (this.#arriving !== undefined) {
        if (!this.#arriving.wanted) break;
        at += this.#takeBody(this.#arriving, chunk, at);
        continue;
      }
      if (this.#owed.full) break;
      // An empty line before a request is passed over (RFC 9112, section 2.2).
      if (chunk[at] === CR && chunk[at + 1] === LF) {
        at += 2;
        continue;
      }
      const head = headAt(chunk, at);
      if (head === 'unfinished' && chunk.length - at < PLAIN_HEAD_BYTES_MAX) {
        this.#unfinished = at === 0 ? chunk : chunk.subarray(at);
        break;
      }
      if (typeof head === 'string') {
        this.#leaving = true;
        break;
      }
      this.#unfinishedSinceMs = undefined;
      at += head.bytes;
      at = this.#begin(head, chunk, at);
    }
    this.#reading = false;
    this.#more = false;
    if (this.#unfinished !== undefined) this.#unfinishedSinceMs ??= performance.now();
    else if (at < chunk.length && !this.#closing) this.#hold(at === 0 ? chunk : chunk.subarray(at));
  }

  /** A request has come; gives where in `chunk` the next one begins, or the rest of its body. */
  #begin(head: RequestHead, chunk: Buffer, at: number): number {
    const end = at + (head.contentLength ?? 0);
    const whole = end <= chunk.length;
    const request = new DirectRequest(this, head, whole && end > at ? chunk.subarray(at, end) : undefined);
    if (!whole) this.#arriving = request;
    this.#more = end < chunk.length;
    this.#owed.add(request);
    this.requests += 1;
    this.#options.request(request);
    return whole ? end : at;
  }

  #takeBody(request: DirectRequest, chunk: Buffer, at: number): number {
    const bytes = request.take(chunk, at);
    if (request.complete) this.#arriving = undefined;
    return bytes;
  }

  #hold(rest: Buffer): void {
    this.#held = rest;
    this.#unfinishedSinceMs = undefined; // Until it is read again.
    this.#socket.pause();
    if (this.#leaving) this.#outbox.add(this);
  }

  /** What can only be done when nothing is owed any more. */
  #settleEnd(): void {
    if (this.#ended && this.#arriving !== undefined && this.#held === undefined) this.#abort(this.#arriving);
    if (this.#owed.any) return;
    if (this.#leaving) this.#leave();
    else if (this.#ended && this.#unfinished !== undefined) this.#cutOff();
    else if (this.#ended && this.#held === undefined && !this.#closing) this.#socket.destroySoon();
  }

  #cutOff(): void {
    this.stopReading();
    this.#options.cutOff();
  }

  #leave(): void {
    if (this.#socket.destroyed) return;
    this.#left = true;
    this.#socket.off('data', this.#onData);
    this.#socket.off('end', this.#onEnd);
    this.#socket.off('drain', this.#onDrain);
    this.#socket.off('close', this.#onClose);
    this.#socket.off('error', ignore);
    const rest = [this.#held ?? EMPTY];
    this.#held = undefined;
    for (let more = this.#socket.read() as Buffer | null; more !== null; more = this.#socket.read() as Buffer | null)
      rest.push(more);
    this.#options.left(rest.length === 1 && rest[0] !== undefined ? rest[0] : Buffer.concat(rest), this.#ended);
  }

  readonly #onDrain = (): void => {
    if (this.#held !== undefined || this.#owed.any) this.#outbox.add(this);
  };

  readonly #onEnd = (): void => {
    this.#ended = true;
    if (this.#closing) return;
    this.#outbox.add(this);
  };

  /** The client ended its side in the middle of a body: nothing is owed for that one any more. */
  #abort(arriving: DirectRequest): void {
    this.#arriving = undefined;
    arriving.aborted();
    if (arriving.answer === undefined) this.#owed.dropNewest();
  }

  readonly #onClose = (): void => {
    this.gone = true;
    this.#held = undefined;
    this.#arriving?.aborted();
    this.#arriving = undefined;
    this.#owed.clear();
  };
}

function headAt(chunk: Buffer, at: number): ReturnType<typeof readHead> {
  const head = readHead(chunk.toString('latin1', at, at + USUAL_HEAD_BYTES));
  const cut = head === 'unfinished' && chunk.length - at > USUAL_HEAD_BYTES;
  return cut ? readHead(chunk.toString('latin1', at, at + PLAIN_HEAD_BYTES_MAX)) : head;
}

const CR = 0x0d;
const LF = 0x0a;
const EMPTY = Buffer.alloc(0);
const ignore = (): void => undefined; // 'close' follows, and tells.
