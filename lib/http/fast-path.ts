// Reads the requests of a connection: whole plain `POST /events` requests are answered on the socket, and everything
// else goes to node:http.
//
// Fact: without the fast path, an event costs 48 µs instead of 22 µs (BENCH_CASES=saturation make bench). Choice: the
// first request that is not plain and whole moves the connection to node:http for good, with every byte that has not
// been handled. Node handles all requests of a read immediately, so it gets slices, and none while it owes an answer.
//
// Invariants: no byte is lost, and answers are written in the order of their requests. Only the beginning of one
// plain request is held here; all other unread bytes stay in the socket, which is then paused.
import type { Socket } from 'node:net';
import { Connection } from './connection.ts';
import { NodePath } from './node-path.ts';
import { parsedBytes, parsePost, PLAIN_BYTES_MAX, type PlainPost } from './plain-post.ts';
import { closingTail, responseText, type Answer } from './respond.ts';

/** A request that is not complete after this many pieces, or after this time, goes to node:http. */
const PIECES_MAX = 16;
const WAIT_MS = 500;
/** The socket is paused while this many answers are owed. */
const OWED_MAX = 64;
/** Cost of a slice that node:http reads. A request on the fast path costs 1. */
export const SLICE_COST = 4;
/** An estimate of the memory of a request and its answer. */
const ANSWER_BYTES = 1_024;
const NOTHING = Buffer.alloc(0);

export class HttpConnection<T> extends Connection<T> {
  /** Set once node:http has the connection. */
  node: NodePath<T> | undefined;
  /** The beginning of a request. */
  #held: Buffer = NOTHING;
  #pieces = 0;
  #heldSinceMs = 0;
  /** Plain requests whose answers have not been written, oldest first. */
  readonly #owed: PlainPost[] = [];
  /** True if reading goes on in a later turn. */
  #isQueued = false;
  /** True if the rest is for node:http, which has the connection once all answers owed here are written. */
  #isLeaving = false;
  #hasEnded = false;

  override open(socket: Socket): void {
    super.open(socket);
    this.#isLeaving = !this.host.hasFastPath;
    socket.on('data', this.#onData);
    socket.on('end', this.#onEnd);
  }

  protected override get owesAnswer(): boolean {
    return this.#owed.length > 0 || this.node?.owesAnswer === true;
  }
  override get isArriving(): boolean {
    return this.#held.length > 0 || this.node?.isArriving === true || this.socket.readableLength > 0;
  }
  protected override get heldOutside(): number {
    return this.#held.length + ANSWER_BYTES * this.#owed.length + (this.node?.answerBytes ?? 0);
  }

  respond(post: PlainPost, requestId: string, answer: Answer, close: boolean): void {
    if (post.response !== undefined || this.isClosing) return;
    const isLatest = this.#owed.at(-1) === post && !this.isArriving;
    post.closes = close || this.isLastAnswer(isLatest);
    this.isRetiring ||= post.closes;
    const tail = post.closes ? closingTail : this.host.keepAliveTail;
    post.response = responseText(requestId, answer, tail(this.host.clock.epochMs()));
    this.wake();
  }

  protected override checkReading(nowMs: number): void {
    if (this.#held.length > 0 && nowMs - this.#heldSinceMs >= WAIT_MS) this.#leave();
  }

  protected override readonly flush = (): void => {
    const { socket } = this;
    if (socket.writableNeedDrain) return;
    this.#writeAnswers();
    if (this.isClosing || socket.writableNeedDrain) return;
    if (!this.owesAnswer && this.isRetiring) return this.finish();
    if (this.#hasEnded && this.node === undefined && this.#owed.length === 0) return this.#end();
    if (!this.#isQueued && !this.#isFull) socket.resume();
  };

  protected override stopReading(): void {
    this.socket.off('data', this.#onData);
    this.socket.off('end', this.#onEnd);
    this.#held = NOTHING;
    this.#owed.length = 0;
  }

  // Fact: under overload, many requests of one connection arrive in one turn, and most of the cost of a refusal is the
  // TLS record and the system call for its answer (BENCH_CASES=overload make bench). Choice: one write for all of them.
  #writeAnswers(): void {
    const owed = this.#owed;
    let text = '';
    let ready = 0;
    for (let post = owed[0]; post?.response !== undefined; post = owed[ready]) {
      text += post.response;
      ready += 1;
      if (post.closes) return this.finish(text);
    }
    if (ready === 0) return;
    // Fact: an array gives up its memory if all elements are removed together. Choice: `pop` removes them one by one.
    // Effect: 150 bytes less JavaScript heap per event.
    if (ready < owed.length) owed.splice(0, ready);
    else while (owed.length > 0) owed.pop();
    this.socket.write(text, 'latin1');
  }

  readonly #onData = (chunk: Buffer): void => {
    try {
      this.#read(this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]));
    } catch (cause) {
      this.bug(cause);
    }
  };

  #read(bytes: Buffer): void {
    const { turns, handlers } = this.host;
    this.#held = NOTHING;
    for (let at = 0; at < bytes.length && !this.isClosing;) {
      if (this.#isFull) return this.#pause(bytes.subarray(at));
      if (!turns.take(this.#isLeaving ? SLICE_COST : 1) && at > 0) {
        this.#pause(bytes.subarray(at));
        this.#isQueued = true;
        return turns.later(this.holder, this.#goOn);
      }
      if (this.#isLeaving) {
        at += this.#toNode().read(bytes, at);
        continue;
      }
      const post = parsePost(bytes, at, this);
      if (post === 'unfinished') return this.#hold(bytes, at);
      this.#pieces = 0;
      if (post === 'not plain') this.#isLeaving = true;
      else {
        at += parsedBytes;
        this.#owed.push(post);
        handlers.request(this, post);
      }
    }
  }

  readonly #goOn = (): void => {
    this.#isQueued = false;
    this.wake();
  };

  /** True if nothing may be read for now. */
  get #isFull(): boolean {
    if (this.node !== undefined) return this.node.wanted === 0;
    if (this.isRetiring || this.socket.writableNeedDrain) return true;
    return this.#owed.length >= (this.hasOneAnswer || this.#isLeaving ? 1 : OWED_MAX);
  }

  #pause(rest: Buffer): void {
    this.socket.pause();
    // A stream does not end before all of its bytes are read, so the end of the input waits, too.
    if (rest.length > 0) this.socket.unshift(rest);
  }

  /** Keeps the beginning of a request. A copy, so that the memory of the whole chunk can be freed. */
  #hold(bytes: Buffer, at: number): void {
    this.#held = at === 0 ? bytes : Buffer.from(bytes.subarray(at));
    this.#pieces += 1;
    if (this.#pieces === 1) this.#heldSinceMs = this.host.clock.ms();
    if (this.#pieces >= PIECES_MAX || this.#held.length >= PLAIN_BYTES_MAX) this.#leave();
  }

  #leave(): void {
    this.#isLeaving = true;
    if (!this.#hasEnded) {
      this.#pause(this.#held);
      this.#held = NOTHING;
    }
    this.wake();
  }

  #toNode(): NodePath<T> {
    if (this.node !== undefined) return this.node;
    this.socket.off('data', this.#onData);
    this.node = new NodePath(this, this.host.adopt(this.socket));
    this.socket.on('data', this.#onData);
    return this.node;
  }

  readonly #onEnd = (): void => {
    this.#hasEnded = true;
    this.wake();
    // If a body after `Upgrade` is cut short, node:http reports no error and waits for the rest forever.
    if (this.node?.unfinished !== undefined) this.node.faulty('malformed');
  };

  /** The client has ended its side, and all answers are written. */
  #end(): void {
    if (this.#held.length === 0) return this.finish();
    // Nothing can be put back into a stream that has ended. The rest is less than one request.
    this.#toNode().pass(this.#held);
    this.#held = NOTHING;
    // Node's listener for the end has missed it.
    this.socket.emit('end');
  }
}
