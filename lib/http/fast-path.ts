// The fast path: reads whole plain `POST /events` requests in front of node:http, and answers them on the socket.
//
// Fact: without this path, an event costs 53 µs instead of 31 µs (BENCH_CASES=saturation make bench). Choice: the first
// request that is not plain and whole moves the connection to node:http for good, with every byte that has not been
// handled.
//
// Invariants: no byte is lost, and answers are written in the order of their requests. Only the beginning of one
// plain request is held here; all other unread bytes stay in the socket, which is then paused.
import type { Connection, Reader } from './connection.ts';
import { parsedBytes, parsePost, PLAIN_BYTES_MAX, type PlainPost } from './plain-post.ts';
import { responseText, type Answer } from './respond.ts';

/** A request that is not complete after this many pieces, or after this time, goes to node:http. */
const PIECES_MAX = 16;
const WAIT_MS = 500;
/** The socket is paused while this many answers are owed. */
const OWED_MAX = 64;

export class FastPath<T> implements Reader {
  readonly #connection: Connection<T>;
  readonly #leave: (ended?: Buffer) => void;
  /** The beginning of a request. */
  #held: Buffer = NOTHING;
  #pieces = 0;
  #heldSinceMs = 0;
  /** Requests whose answers have not been written, oldest first. */
  readonly #owed: PlainPost[] = [];
  /** The socket is paused in all states but `reading`. `queued`: until a later turn. `leaving`: for node:http. */
  #state: 'reading' | 'paused' | 'queued' | 'leaving' = 'reading';
  /** True if the client ended its side. */
  #hasEnded = false;

  /** `leave` is called once, after the last answer; with the unread bytes if the client ended its side. */
  constructor(connection: Connection<T>, leave: (ended?: Buffer) => void) {
    this.#connection = connection;
    this.#leave = leave;
    connection.socket.on('data', this.#onData);
    connection.socket.on('end', this.#onEnd);
  }

  get owesAnswer(): boolean {
    return this.#owed.length > 0;
  }
  get isArriving(): boolean {
    return this.#held.length > 0 || this.#state === 'leaving' || this.#connection.socket.readableLength > 0;
  }
  get heldBytes(): number {
    return this.#held.length + ANSWER_BYTES * this.#owed.length;
  }

  respond(post: PlainPost, requestId: string, answer: Answer, close: boolean): void {
    const connection = this.#connection;
    if (post.response !== undefined || connection.isClosing) return;
    const isLatest = this.#owed.at(-1) === post && !this.isArriving;
    post.closes = close || connection.isLastAnswer(isLatest);
    connection.isRetiring ||= post.closes;
    post.response = responseText(requestId, answer, connection.tail(post.closes));
    connection.wake();
  }

  check(nowMs: number): void {
    if (this.#held.length > 0 && nowMs - this.#heldSinceMs >= WAIT_MS) this.#beginToLeave();
  }

  flush(): void {
    const connection = this.#connection;
    const { socket } = connection;
    if (socket.writableNeedDrain) return;
    this.#writeAnswers();
    if (connection.isClosing || socket.writableNeedDrain) return;
    if (this.#owed.length === 0) {
      if (connection.isRetiring) return connection.finish();
      if (this.#state === 'leaving') return this.#left();
      if (this.#hasEnded) return connection.finish();
    }
    if (this.#state === 'paused' && this.#owed.length < OWED_MAX) {
      this.#state = 'reading';
      socket.resume();
    }
  }

  stop(): void {
    const { socket } = this.#connection;
    socket.off('data', this.#onData);
    socket.off('end', this.#onEnd);
    this.#held = NOTHING;
    this.#owed.length = 0;
  }

  /**
   * Writes the answers that are ready, in one write.
   *
   * Fact: under overload, many requests of one connection arrive in one turn, and most of the cost of a refusal is the
   * TLS record and the system call for its answer (BENCH_CASES=overload make bench).
   */
  #writeAnswers(): void {
    const owed = this.#owed;
    let text = '';
    let ready = 0;
    for (let post = owed[0]; post?.response !== undefined; post = owed[ready]) {
      text += post.response;
      ready += 1;
      if (post.closes) return this.#connection.finish(text);
    }
    if (ready === 0) return;
    if (ready === owed.length) owed.length = 0;
    else owed.splice(0, ready);
    this.#connection.socket.write(text, 'latin1');
  }

  readonly #onData = (chunk: Buffer): void => {
    try {
      this.#read(this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]));
    } catch (cause) {
      this.#connection.guard(() => {
        throw cause;
      });
    }
  };

  #read(bytes: Buffer): void {
    const connection = this.#connection;
    this.#held = NOTHING;
    for (let at = 0; at < bytes.length && !connection.isClosing;) {
      if (this.#isFull) return this.#pause('paused', bytes.subarray(at));
      if (!connection.host.turns.take() && at > 0) {
        this.#pause('queued', bytes.subarray(at));
        return connection.host.turns.later(connection.holder, this.#goOn);
      }
      const post = parsePost(bytes, at, this);
      if (post === 'unfinished') return this.#hold(bytes, at);
      this.#pieces = 0;
      if (post === 'not plain') {
        this.#held = bytes.subarray(at);
        return this.#beginToLeave();
      }
      at += parsedBytes;
      this.#owed.push(post);
      connection.host.handlers.request(connection, post);
    }
  }

  readonly #goOn = (): void => {
    this.#state = 'paused';
    if (!this.#connection.isClosing) this.#connection.guard(() => this.flush());
  };

  /** True if no further request may be handled before an answer has been written. */
  get #isFull(): boolean {
    const { hasOneAnswer, isRetiring, socket } = this.#connection;
    return isRetiring || socket.writableNeedDrain || this.#owed.length >= (hasOneAnswer ? 1 : OWED_MAX);
  }

  #pause(state: 'paused' | 'queued' | 'leaving', rest: Buffer): void {
    const { socket } = this.#connection;
    this.#state = state;
    socket.pause();
    // A stream does not end before all of its bytes are read, so the end of the input waits, too.
    if (rest.length > 0) socket.unshift(rest);
  }

  /** Keeps the beginning of a request. A copy, so that the memory of the whole chunk can be freed. */
  #hold(bytes: Buffer, at: number): void {
    this.#held = at === 0 ? bytes : Buffer.from(bytes.subarray(at));
    this.#pieces += 1;
    if (this.#pieces === 1) this.#heldSinceMs = this.#connection.host.clock.ms();
    if (this.#pieces >= PIECES_MAX || this.#held.length >= PLAIN_BYTES_MAX) this.#beginToLeave();
  }

  #beginToLeave(): void {
    this.#state = 'leaving';
    if (!this.#hasEnded) {
      this.#pause('leaving', this.#held);
      this.#held = NOTHING;
    }
    if (this.#owed.length === 0 && !this.#connection.socket.writableNeedDrain) this.#left();
    else this.#connection.wake();
  }

  #left(): void {
    const ended = this.#hasEnded ? this.#held : undefined;
    this.stop();
    this.#leave(ended);
  }

  readonly #onEnd = (): void => {
    this.#hasEnded = true;
    this.#connection.guard(() => {
      if (this.#held.length > 0) this.#beginToLeave();
      else this.#connection.wake();
    });
  };
}

const NOTHING = Buffer.alloc(0);
/** An estimate of the memory of a request that waits for its answer, and of its answer. */
const ANSWER_BYTES = 1_024;
