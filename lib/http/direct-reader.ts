// Reads plain requests straight off a TLS connection and writes their answers straight back.
//
// Fact: of 78 µs that an empty node:https server uses for a request, 38 are node's streams, timers and messages around the
// parser, not TLS or the kernel (a server that reads and answers on the socket: 40 µs). Choice: requests that
// request-head.ts calls plain are read here; at the first one that is not, the connection goes to node:http for good, with
// every byte that was not read yet.
//
// States: reading (perhaps with the beginning of a head that is unfinished) → held (bytes wait: too many answers are owed or unread, or a body is not wanted yet) → reading …;
// leaving (the next request is node:http's; the answers owed before it come first) → left; closing (the last answer said
// so; what still comes is thrown away).
//
// Invariants: answers leave in the order of the requests. What is held is bounded by one read of the socket: while
// bytes wait, the socket is paused. Nothing that has come is lost: held bytes are read, handed over, or the connection
// has said that it closes.
import type { TLSSocket } from 'node:tls';
import { DirectRequest } from './direct-request.ts';
import type { Outbox } from './outbox.ts';
import { PLAIN_HEAD_BYTES_MAX, readHead, type RequestHead } from './request-head.ts';

/** How much of one connection may wait for its answers; what is over stays unread. See `loadOf`. */
const LOAD_MAX = 256;

/** The answer to an event is short. That to a GET may be a whole event, or all metrics, and no admission bounds those. */
const loadOf = (request: DirectRequest): number => (request.method === 'POST' ? 1 : 16);

/** About how much is handed to the socket in one piece. */
const WRITE_CHARACTERS = 65_536;

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
  /** Not answered yet, or answered and not written; oldest first. */
  readonly #unanswered: DirectRequest[] = [];
  /** The one whose body is still to come. */
  #arriving: DirectRequest | undefined;
  /** The sum of `loadOf` over the unanswered. */
  #load = 0;
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
    this.keepAlive = options.keepAlive;
    this.#socket.on('data', this.#onData);
    this.#socket.on('end', this.#onEnd);
    this.#socket.on('drain', this.#onDrain);
    this.#socket.on('close', this.#onClose);
    this.#socket.on('error', ignore);
  }

  /** An answer is owed or on its way, or a request is under way. */
  get busy(): boolean {
    return this.#unanswered.length > 0 || this.#arriving !== undefined || this.#held !== undefined || this.#socket.writableLength > 0;
  }

  /** The last request that has come; undefined while bytes behind it wait to be read. */
  get latest(): DirectRequest | undefined {
    return this.#more || this.#unfinished !== undefined || (this.#held !== undefined && this.#arriving === undefined) ? undefined : this.#unanswered.at(-1);
  }

  /** The next answer is owed and not made yet. */
  get owing(): boolean {
    const oldest = this.#unanswered[0];
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
    this.#writeReady();
    if (this.#held !== undefined && !this.#full && (this.#arriving?.wanted ?? true)) this.#readHeld();
    this.#settleEnd();
  }

  /** Some at a time, so that what the client takes shows, and no more than it takes. */
  #writeReady(): void {
    while (this.#unanswered[0]?.answer !== undefined && !this.#socket.writableNeedDrain) this.#writeSome();
  }

  #writeSome(): void {
    const { length } = this.#unanswered;
    let text = '';
    let wide = false;
    let closes = false;
    let ready = 0;
    for (; ready < length && !closes && text.length < WRITE_CHARACTERS; ready += 1) {
      const request = this.#unanswered[ready];
      if (request?.answer === undefined) break;
      text += request.answer;
      wide ||= request.wide;
      closes = request.closes;
      this.#load -= loadOf(request);
    }
    if (ready === length) this.#unanswered.length = 0;
    else this.#unanswered.splice(0, ready);
    // Fact: the socket writes a latin1 string as it is, and measures and encodes a utf8 one. Nearly all answers are ASCII.
    this.#socket.write(text, wide ? 'utf8' : 'latin1');
    if (!closes) return;
    this.#unanswered.length = 0;
    this.#socket.destroySoon();
  }

  /** So much is owed, or waits to be taken by the client, that nothing more is read. */
  get #full(): boolean {
    return this.#load >= LOAD_MAX || this.#socket.writableNeedDrain;
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
      if (this.#full) break;
      // An empty line before a request is passed over (RFC 9112, section 2.2).
      if (chunk[at] === CR && chunk[at + 1] === LF) {
        at += 2;
        continue;
      }
      const head = readHead(chunk.toString('latin1', at, at + PLAIN_HEAD_BYTES_MAX));
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
    this.#unanswered.push(request);
    this.#load += loadOf(request);
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
    if (this.#unanswered.length > 0) return;
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
    for (let more = this.#socket.read() as Buffer | null; more !== null; more = this.#socket.read() as Buffer | null) rest.push(more);
    this.#options.left(rest.length === 1 && rest[0] !== undefined ? rest[0] : Buffer.concat(rest), this.#ended);
  }

  readonly #onDrain = (): void => {
    if (this.#held !== undefined || this.#unanswered.length > 0) this.#outbox.add(this);
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
    if (arriving.answer === undefined) this.#unanswered.pop();
  }

  readonly #onClose = (): void => {
    this.gone = true;
    this.#held = undefined;
    this.#arriving?.aborted();
    this.#arriving = undefined;
    this.#unanswered.length = 0;
  };
}

const CR = 0x0d;
const LF = 0x0a;
const EMPTY = Buffer.alloc(0);
const ignore = (): void => undefined; // 'close' follows, and tells.
