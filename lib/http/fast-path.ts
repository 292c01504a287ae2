// The fast path: reads whole plain `POST /events` requests in front of node:http, and answers them on the socket.
//
// Fact: without this path, an event costs 53 µs instead of 31 µs (BENCH_CASES=saturation make bench). Choice: the first
// request that is not plain and whole moves the connection to node:http for good, with every byte that has not been
// handled.
//
// Invariants: no byte is lost, and answers are written in the order of their requests. Only the beginning of one
// plain request is held here; all other unread bytes stay in the socket, which is then paused.
import type { Answer } from './respond.ts';
import { responseText } from './respond.ts';
import type { Path, PathOwner } from './path.ts';
import { parsedBytes, parsePost, PLAIN_BYTES_MAX, type PlainPost } from './plain-post.ts';

/** A request that is not complete after this many pieces, or after this time, goes to node:http. */
const PIECES_MAX = 16;
const WAIT_MS = 500;
/** The socket is paused while this many answers are owed. */
const OWED_MAX = 64;
/** Answers are written together up to about this many bytes. */
const WRITE_BYTES = 65_536;

export class FastPath implements Path {
  readonly #owner: PathOwner;
  readonly #isOn: boolean;
  readonly #leave: (rest: Buffer, hasEnded: boolean) => void;
  /** The beginning of a request. */
  #held: Buffer = NOTHING;
  #pieces = 0;
  #heldSinceMs = 0;
  /** Requests whose answers have not been written, oldest first. */
  readonly #owed: PlainPost[] = [];
  #isPaused = false;
  /** True while the socket waits for a later turn. */
  #isQueued = false;
  #isLeaving = false;
  /** True once an answer closes the connection. */
  #closes = false;
  #hasEnded = false;

  /**
   * `isOn`: false moves the connection on with its first byte. `leave` is called once, after the last answer, with the
   * unread bytes. `hasEnded`: the client ended its side.
   */
  constructor(owner: PathOwner, isOn: boolean, leave: (rest: Buffer, hasEnded: boolean) => void) {
    this.#owner = owner;
    this.#isOn = isOn;
    this.#leave = leave;
    owner.socket.on('data', this.#onData);
    owner.socket.on('end', this.#onEnd);
  }

  get isBusy(): boolean {
    return this.#owed.length > 0 || this.isArriving;
  }
  get owesAnswer(): boolean {
    return this.#owed.length > 0;
  }
  get isArriving(): boolean {
    return this.#held.length > 0 || this.#isLeaving || this.#owner.socket.readableLength > 0;
  }
  get heldBytes(): number {
    return this.#held.length + ANSWER_BYTES * this.#owed.length;
  }
  get isClosed(): boolean {
    return this.#owner.socket.destroyed;
  }

  isLatest(post: PlainPost): boolean {
    return this.#owed.at(-1) === post && !this.isArriving;
  }

  respond(post: PlainPost, requestId: string, answer: Answer, close: boolean): void {
    const owner = this.#owner;
    if (post.response !== undefined || owner.isClosing) return;
    post.closes = close || owner.hasOneAnswer;
    this.#closes ||= post.closes;
    post.response = responseText(requestId, answer, post.closes ? owner.closingTail() : owner.keepAliveTail());
    owner.wake();
  }

  check(nowMs: number): void {
    if (this.#held.length > 0 && nowMs - this.#heldSinceMs >= WAIT_MS) this.#beginToLeave();
  }

  flush(): void {
    const owner = this.#owner;
    const { socket } = owner;
    while (this.#owed[0]?.response !== undefined && !socket.writableNeedDrain) {
      if (this.#writeAnswers()) return;
    }
    if (socket.writableNeedDrain) return;
    if (this.#owed.length === 0) {
      if (owner.isRetiring) return owner.finish('', true);
      if (this.#isLeaving) return this.#left();
      if (this.#hasEnded) return owner.finish('', false);
    }
    if (this.#isPaused && !this.#isQueued && !this.#isLeaving && this.#owed.length < OWED_MAX) {
      this.#isPaused = false;
      socket.resume();
    }
  }

  stop(): void {
    this.#owner.socket.off('data', this.#onData);
    this.#owner.socket.off('end', this.#onEnd);
    this.#held = NOTHING;
    this.#owed.length = 0;
  }

  /**
   * Writes the answers that are ready, in one write. Returns true if the connection closes after them.
   *
   * Fact: under overload, many requests of one connection arrive in one turn, and most of the cost of a refusal is the
   * TLS record and the system call for its answer (BENCH_CASES=overload make bench).
   */
  #writeAnswers(): boolean {
    const owed = this.#owed;
    let text = '';
    let ready = 0;
    let closes = false;
    for (; !closes && text.length < WRITE_BYTES; ready += 1) {
      const post = owed[ready];
      if (post?.response === undefined) break;
      text += post.response;
      ({ closes } = post);
    }
    if (closes) {
      this.#owner.finish(text, true);
      return true;
    }
    if (ready === owed.length) owed.length = 0;
    else owed.splice(0, ready);
    this.#owner.socket.write(text, 'latin1');
    return false;
  }

  readonly #onData = (chunk: Buffer): void => {
    try {
      this.#read(this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]));
    } catch (cause) {
      this.#owner.guard(() => {
        throw cause;
      });
    }
  };

  #read(bytes: Buffer): void {
    const owner = this.#owner;
    this.#held = NOTHING;
    let at = 0;
    for (let isFirst = true; at < bytes.length; isFirst = false) {
      if (owner.isClosing) return;
      if (this.#isFull) return this.#pause(bytes.subarray(at));
      if (!owner.turns.take(1) && !isFirst) {
        this.#pause(bytes.subarray(at));
        this.#isQueued = true;
        owner.turns.later(owner.holder, this.#goOn);
        return;
      }
      const post = this.#isOn ? parsePost(bytes, at, this) : 'not plain';
      if (post === 'unfinished') return this.#hold(bytes, at);
      this.#pieces = 0;
      if (post === 'not plain') {
        this.#held = bytes.subarray(at);
        return this.#beginToLeave();
      }
      at += parsedBytes;
      this.#owed.push(post);
      owner.handle(post);
    }
  }

  readonly #goOn = (): void => {
    this.#isQueued = false;
    if (!this.#owner.isClosing) this.#owner.guard(() => this.flush());
  };

  /** True if no further request may be handled before an answer has been written. */
  get #isFull(): boolean {
    const { hasOneAnswer, isRetiring, socket } = this.#owner;
    const { length } = this.#owed;
    if (this.#closes || isRetiring || socket.writableNeedDrain) return true;
    return length >= (hasOneAnswer ? 1 : OWED_MAX);
  }

  #pause(rest: Buffer): void {
    const { socket } = this.#owner;
    this.#isPaused = true;
    socket.pause();
    // A stream does not end before all of its bytes are read, so the end of the input waits, too.
    if (rest.length > 0) socket.unshift(rest);
  }

  /** Keeps the beginning of a request. A copy, so that the memory of the whole chunk can be freed. */
  #hold(bytes: Buffer, at: number): void {
    this.#held = at === 0 ? bytes : Buffer.from(bytes.subarray(at));
    this.#pieces += 1;
    if (this.#pieces === 1) this.#heldSinceMs = this.#owner.clock.ms();
    if (this.#pieces >= PIECES_MAX || this.#held.length >= PLAIN_BYTES_MAX) this.#beginToLeave();
  }

  #beginToLeave(): void {
    this.#isLeaving = true;
    if (!this.#hasEnded) {
      this.#pause(this.#held);
      this.#held = NOTHING;
    }
    if (this.#owed.length === 0 && !this.#owner.socket.writableNeedDrain) this.#left();
    else this.#owner.wake();
  }

  #left(): void {
    const held = this.#held;
    this.stop();
    this.#leave(held, this.#hasEnded);
  }

  readonly #onEnd = (): void => {
    this.#hasEnded = true;
    this.#owner.guard(() => {
      if (this.#held.length > 0) this.#beginToLeave();
      else this.#owner.wake();
    });
  };
}

const NOTHING = Buffer.alloc(0);
/** An estimate of the memory of a request that waits for its answer, and of its answer. */
const ANSWER_BYTES = 1_024;
