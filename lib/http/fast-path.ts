// Reads the requests of a connection: whole plain `POST /events` requests are answered on the socket, and everything
// else goes to node:http, which reads requests, writes their answers and keeps its time limits.
//
// Fact: without the fast path, an event costs 48 µs instead of 22 µs (BENCH_CASES=saturation make bench). Choice: the
// first request that is not plain and whole moves the connection to node:http for good. Node handles all requests of a
// read immediately, so it gets slices in which at most one request ends, and nothing while it owes an answer.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Connection } from './connection.ts';
import { NodeRequest, SLICE_BYTES } from './node-request.ts';
import { finishWith, repeatEnd } from './node-server.ts';
import { parsedBytes, parsePost, type PlainPost } from './plain-post.ts';
import { requestIdIn, unknownMethod, type HttpRequest, type ProtocolFault } from './request.ts';
import { closingTail, responseText, type Answer } from './respond.ts';
import { CALL_COST } from './turns.ts';

/** A request that is not complete after this many pieces, or after this time, goes to node:http. */
const PIECES_MAX = 16;
const WAIT_MS = 500;
/** The socket is paused while this many answers are owed. */
const OWED_MAX = 64;
/** An estimate of the memory of a request and its answer. */
const ANSWER_BYTES = 1_024;
const NOTHING = Buffer.alloc(0);
const [CR, LF] = [0x0d, 0x0a];
/** Length of the rest of an unreadable head in which the request id is looked for. */
const HEAD_BYTES_KEPT = 65_536;
/** Replaces a method that node:http does not know. The route refuses it. */
const KNOWN_METHOD = Buffer.from('PATCH');

export class HttpConnection<T> extends Connection<T> {
  /** The beginning of a request. */
  #held: Buffer = NOTHING;
  #pieces = 0;
  #heldSinceMs = 0;
  /** Plain requests whose answers have not been written, oldest first. */
  readonly #posts: PlainPost[] = [];
  /** True if reading goes on in a later turn, and if the next bytes have waited for one. */
  #isQueued = false;
  #isPostponed = false;
  /** True if the rest is for node:http, once all answers to plain requests are written. */
  #isLeaving = false;
  #passToNode: ((bytes: Buffer) => void) | undefined;
  #request: NodeRequest<T> | undefined;
  #isInHead = false;
  /** The head that is arriving, or the latest one, and its method if node:http does not know that. */
  #head = '';
  #method: string | undefined;
  #tail = '';

  override open(socket: Socket): void {
    super.open(socket);
    this.#isLeaving = this.host.limits.httpReader === 'node';
    socket.on('data', this.#onData);
    socket.on(
      'end',
      this.guarded<void>(() => this.#inputEnded()),
    );
  }

  #inputEnded(): void {
    // Node's listener comes next, and ends the other side after bytes that it cannot read.
    if (this.fault !== undefined && !this.isClosing) return this.flush();
    this.wake();
    // If a body after `Upgrade` is cut short, node:http reports no error and waits for the rest forever.
    if (this.#unfinished !== undefined) this.faulty('malformed');
  }

  override get isBusy(): boolean {
    return this.#owesAnswer || this.#isInHead || this.#unfinished !== undefined || this.#hasMore;
  }
  get #owesAnswer(): boolean {
    return this.#posts.length > 0 || this.#request?.isOwed === true;
  }
  get #hasMore(): boolean {
    return this.#held.length > 0 || this.socket.readableLength > 0;
  }
  get #unfinished(): NodeRequest<T> | undefined {
    return this.#request?.message.complete === false ? this.#request : undefined;
  }
  override heldBytes(): number {
    const answerBytes = ANSWER_BYTES * this.#posts.length + (this.#request?.answerBytes ?? 0);
    return super.heldBytes() + this.#held.length + answerBytes;
  }

  override closesAfter(request: HttpRequest): boolean {
    // Requests after an answer that closes are dropped, so a stopping server closes only with the latest answer.
    const isLatest = (this.#posts.at(-1) ?? this.#request) === request;
    return this.hasOneAnswer || (isLatest && !this.#hasMore && this.host.handlers.draining());
  }

  respond(post: PlainPost, requestId: string, answer: Answer, close: boolean): void {
    if (post.response !== undefined || this.isClosing) return;
    post.closes = close || this.closesAfter(post);
    this.isRetiring ||= post.closes;
    const tail = post.closes ? closingTail : this.host.keepAliveTail;
    post.response = responseText(requestId, answer, tail(this.host.clock.epochMs()));
    this.wake();
  }

  override check(nowMs: number, drainsSinceMs: number): void {
    const isLate = this.#held.length > 0 && nowMs - this.#heldSinceMs >= WAIT_MS;
    if (isLate && !this.socket.readableEnded) {
      this.#isLeaving = true;
      this.#pieces = PIECES_MAX;
      this.#onData(NOTHING);
    }
    super.check(nowMs, drainsSinceMs);
  }

  protected override flush(): void {
    const { socket, fault } = this;
    if (socket.writableNeedDrain) return;
    this.#writeAnswers();
    if (this.isClosing || socket.writableNeedDrain) return;
    if (!this.#owesAnswer) {
      if (fault !== undefined) return this.finish(this.#unfinished ? '' : this.#faultAnswer(fault));
      if (this.isRetiring) return this.finish();
      if (socket.readableEnded) return this.#end();
    }
    if (!this.#isQueued && this.#mayRead) socket.resume();
  }

  // One write for all: most of the cost of a refusal is the TLS record and the system call (BENCH_CASES=overload).
  #writeAnswers(): void {
    const posts = this.#posts;
    let text = '';
    let ready = 0;
    for (let post = posts[0]; post?.response !== undefined; post = posts[ready]) {
      text += post.response;
      ready += 1;
      if (post.closes) return this.finish(text);
    }
    if (ready === 0) return;
    // An array gives up its memory if all elements are removed together: 150 bytes more JavaScript heap per event.
    if (ready < posts.length) posts.splice(0, ready);
    else while (posts.length > 0) posts.pop();
    this.socket.write(text, 'latin1');
  }

  readonly #onData = this.guarded((chunk: Buffer): void => {
    const { turns, handlers, clock } = this.host;
    if (this.#isPostponed) this.#isPostponed = false;
    else this.readMs = handlers.arrivedMs?.() ?? 0;
    const bytes = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    this.#held = NOTHING;
    for (let at = 0; at < bytes.length && !this.isClosing;) {
      if (!this.#mayRead) {
        if (this.fault !== undefined) this.#head += bytes.toString('latin1', at, at + HEAD_BYTES_KEPT);
        return this.#pause(bytes.subarray(at));
      }
      if (!turns.take(this.#isLeaving ? CALL_COST : 1) && at > 0) {
        this.#pause(bytes.subarray(at));
        this.#isQueued = true;
        this.#isPostponed = true;
        return turns.later(this.holder, this.#goOn);
      }
      const post = this.#isLeaving ? this.#passSlice(bytes, at) : parsePost(bytes, at, this);
      if (post === 'unfinished' && (this.#pieces += 1) < PIECES_MAX) {
        // A copy, so that the memory of the whole chunk can be freed.
        this.#held = at === 0 ? bytes : Buffer.from(bytes.subarray(at));
        if (this.#pieces === 1) this.#heldSinceMs = clock.ms();
        return;
      }
      if (post !== 'unfinished') this.#pieces = 0;
      if (typeof post === 'number') at += post;
      else if (typeof post === 'string') this.#isLeaving = true;
      else {
        at += parsedBytes;
        this.#posts.push(post);
        handlers.request(this, post);
      }
    }
  });

  readonly #goOn = (): void => {
    this.#isQueued = false;
    this.wake();
  };

  get #mayRead(): boolean {
    if (this.fault !== undefined) return false;
    if (this.#unfinished !== undefined) return this.#unfinished.isWanted;
    if (this.isRetiring || this.socket.writableNeedDrain) return false;
    return this.#isLeaving ? !this.#owesAnswer : this.#posts.length < (this.hasOneAnswer ? 1 : OWED_MAX);
  }

  #pause(rest: Buffer): void {
    this.socket.pause();
    // A stream does not end before all of its bytes are read, so the end of the input waits, too.
    this.socket.unshift(rest);
  }

  #end(): void {
    if (this.#held.length === 0) return this.finish();
    // Nothing can be put back into a stream that has ended. The rest is less than one request.
    this.#isLeaving = true;
    this.#toNode()(this.#held);
    this.#held = NOTHING;
    repeatEnd(this.socket);
  }

  #toNode(): (bytes: Buffer) => void {
    if (this.#passToNode !== undefined) return this.#passToNode;
    const { socket } = this;
    socket.off('data', this.#onData);
    this.#passToNode = this.host.adopt(this);
    socket.on('data', this.#onData);
    finishWith(socket, () => this.finish());
    return this.#passToNode;
  }

  #passSlice(bytes: Buffer, from: number): number | 'unfinished' {
    const body = this.#unfinished;
    const isNew = body === undefined && !this.#isInHead;
    let end = from;
    // Empty lines do not begin a request.
    if (isNew) while (bytes[end] === CR || bytes[end] === LF) end += 1;
    if (end > from) return end - from;
    const ahead = bytes.toString('latin1', from, from + SLICE_BYTES);
    if (isNew) {
      const method = unknownMethod(ahead);
      if (method === '' && this.#pieces < PIECES_MAX - 1) return 'unfinished';
      [this.#head, this.#method] = ['', method === '' ? undefined : method];
    }
    this.#isInHead = body === undefined;
    if (body?.head.contentLength !== undefined) end += body.head.contentLength - body.passedBytes;
    else {
      // A head and a chunked body end with an empty line.
      const text = this.#tail + ahead;
      const line = text.indexOf('\r\n\r\n');
      end += (line === -1 ? text.length : line + 4) - this.#tail.length;
    }
    const slice = bytes.subarray(from, end);
    this.#tail = (this.#tail + slice.toString('latin1', slice.length - 3)).slice(-3);
    if (body === undefined) this.#head += ahead.slice(0, slice.length);
    else body.passedBytes += slice.length;
    const method = isNew ? this.#method : undefined;
    this.#toNode()(method === undefined ? slice : Buffer.concat([KNOWN_METHOD, slice.subarray(method.length)]));
    return slice.length;
  }

  #faultAnswer(fault: ProtocolFault): string {
    return this.host.handlers.protocolFault(fault, this, this.#isInHead ? requestIdIn(this.#head) : undefined);
  }

  requested(message: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void {
    this.#isInHead = false;
    this.#request = new NodeRequest(this, message, response, expectsContinue, this.#method);
    this.isRetiring ||= this.#request.isLast;
    this.host.handlers.request(this, this.#request);
  }

  faulty(fault: ProtocolFault): void {
    if (this.phase !== 'open' || this.isGone) return;
    this.fault ??= fault;
    this.wake();
    if (this.#unfinished?.isAnswered !== false) return;
    // A request whose body ends early gets no answer. Another one gets one from its handler.
    if (this.socket.readableEnded) this.finish();
    else this.#unfinished.cut();
  }
}
