// Reads the plain requests of one connection, and writes their answers in order.
//
// Fact: of 78 µs that an empty node:https server uses for a request, 38 are node's streams, timers and messages around
// the parser, not TLS or the kernel (a server that reads and answers on the socket: 40 µs). Choice: plain requests are
// read here; with the first one that is not, the connection goes to node:http for good, with every byte that was not
// read yet.
//
// Invariants: nothing that has come is lost: it is read, handed over, or an answer has said that the connection closes.
// While bytes wait that may not be read yet, the connection is paused, so they are one read of the socket at most.
import type { Clock } from '../../process/clock.ts';
import { assert } from '../assert.ts';
import { withPiece } from '../body-pieces.ts';
import type { BodyTaker, HttpRequest, RequestListener } from '../request.ts';
import { bytesOf, responseText, type Answer } from '../respond.ts';
import type { Side, Wire } from '../side.ts';
import { AnswerQueue } from './answer-queue.ts';
import { PlainParser, type PlainHead } from './parser.ts';

export class PlainSide implements Side, PlainOwner {
  readonly unwrittenBytes = 0;
  readonly #wire: Wire;
  readonly #parser = new PlainParser();
  readonly #answers = new AnswerQueue<PlainRequest>();
  /** Whose body is still to come. */
  #arriving: PlainRequest | undefined;
  #requests = 0;
  #headSinceMs: number | undefined;
  #clientEnded = false;

  constructor(wire: Wire) {
    this.#wire = wire;
  }

  get busy(): boolean {
    return this.#answers.any || this.#arriving !== undefined || this.#parser.unread > 0;
  }

  get owing(): boolean {
    const { oldest } = this.#answers;
    return oldest !== undefined && oldest.answer === undefined;
  }

  get requests(): number {
    return this.#requests;
  }

  get headSinceMs(): number | undefined {
    return this.#headSinceMs;
  }

  get bodySinceMs(): number | undefined {
    return this.#arriving?.startMs;
  }

  get keepAlive(): string {
    return this.#wire.keepAlive;
  }

  get clock(): Clock {
    return this.#wire.clock;
  }

  get gone(): boolean {
    return this.#wire.state === 'closed';
  }

  isLatest(request: PlainRequest): boolean {
    if (this.#answers.newest !== request || this.#parser.inHead) return false;
    return this.#parser.unread <= (this.#arriving?.bytesMissing ?? 0);
  }

  bodyDecided(): void {
    this.#wire.wake();
  }

  answered(request: PlainRequest): void {
    this.#answers.answered(request);
    if (request.closes) this.#wire.stopReading(!request.complete);
    this.#wire.wake();
  }

  feed(bytes: Buffer): void {
    this.#parser.push(bytes);
    this.#read();
  }

  feedEnd(): void {
    this.#clientEnded = true;
    this.#wire.wake();
  }

  flush(): void {
    this.#write();
    if (this.#parser.unread > 0) this.#read();
    this.#settle();
  }

  late(): boolean {
    return this.#arriving?.late() ?? false;
  }

  stop(): void {
    this.#parser.rest();
    this.#headSinceMs = undefined;
  }

  close(): void {
    this.stop();
    this.#arriving?.cut();
    this.#arriving = undefined;
    this.#answers.clear();
  }

  /** Reads what may be read now; what is left waits. */
  #read(): void {
    while (this.#wire.state === 'plain') {
      if (this.#arriving !== undefined) {
        const part = this.#arriving.takesBody ? this.#parser.body() : undefined;
        if (part === undefined) break;
        this.#arriving.take(part);
        if (this.#arriving.complete) this.#arriving = undefined;
        continue;
      }
      if (this.#answers.full || !this.#wire.writable || this.#wire.retiring) break;
      const head = this.#parser.next();
      if (head === 'more') break;
      if (head === 'not plain') this.#wire.prepareHandOver();
      else if (this.#begin(head).answer !== undefined && !this.#wire.mayReadOn()) break;
    }
    if (!this.#parser.inHead) this.#headSinceMs = undefined;
    else this.#headSinceMs ??= this.#wire.clock.ms();
    if (this.#parser.unread > 0)
      this.#wire.pause(); // So does a head that is not plain: it was not taken off.
    else this.#wire.resume();
  }

  #begin(head: PlainHead): PlainRequest {
    assert(this.#arriving === undefined, 'one body arrives at a time');
    const announced = head.contentLength ?? 0;
    const body = announced === 0 ? undefined : this.#parser.wholeBody();
    const isWhole = announced === 0 || body !== undefined;
    const request = new PlainRequest(this, head, body, isWhole ? 0 : (this.#headSinceMs ?? this.#wire.clock.ms()));
    this.#headSinceMs = undefined;
    if (!isWhole) this.#arriving = request;
    this.#answers.add(request);
    this.#requests += 1;
    this.#wire.request(request);
    return request;
  }

  #write(): void {
    while (this.#wire.writable) {
      const batch = this.#answers.take();
      if (batch === undefined) return;
      this.#wire.write(batch.text, batch.encoding);
      for (const part of batch.body) this.#wire.write(part, 'latin1');
      if (batch.closes) {
        this.#wire.end(false);
        return;
      }
    }
  }

  /** What can only be done when no answer is owed any more. */
  #settle(): void {
    const { state } = this.#wire;
    if (state !== 'plain' && state !== 'handing over') return;
    if (this.#clientEnded && this.#arriving !== undefined && this.#parser.unread === 0) this.#abort(this.#arriving);
    if (this.#answers.any || !this.#wire.writable) return;
    if (this.#wire.retiring) {
      if (this.#arriving === undefined) this.#wire.end(true);
    } else if (state === 'handing over') {
      assert(this.#arriving === undefined, 'no body arrives when the connection is handed over');
      this.#wire.handOver(this.#parser.rest());
    } else if (!this.#clientEnded) return;
    else if (this.#parser.inHead) this.#wire.sayLast('malformed');
    else if (this.#parser.unread === 0) this.#wire.end(false);
  }

  /** The client ended its side in the middle of a body: nothing is owed for that one any more. */
  #abort(arriving: PlainRequest): void {
    this.#arriving = undefined;
    arriving.cut();
    if (arriving.answer !== undefined) return;
    assert(this.#answers.newest === arriving, 'nothing is owed behind a body that arrives');
    this.#answers.dropNewest();
  }
}

/** What a plain request came by, as far as the request knows it. */
export interface PlainOwner {
  /** The header lines that say how long the connection may idle. */
  readonly keepAlive: string;
  readonly clock: Clock;
  readonly gone: boolean;
  isLatest(request: PlainRequest): boolean;
  /** It is decided whether the body that is arriving is read or thrown away. */
  bodyDecided(): void;
  answered(request: PlainRequest): void;
}

export class PlainRequest implements HttpRequest {
  readonly head: PlainHead;
  listener: RequestListener | undefined;
  /** When its first byte arrived, by `Clock.ms()`; 0 where it arrived whole. */
  readonly startMs: number;
  readonly #owner: PlainOwner;
  /** How many bytes of the body are still to come. */
  #missing: number;
  /** What has come of the body, in a buffer that may have room for the rest. */
  #read: Buffer | undefined;
  #taker: BodyTaker | undefined;
  #body: 'undecided' | 'wanted' | 'abandoned' = 'undecided';
  #cut = false;
  #answer: string | undefined;
  #answerBody: readonly Buffer[] | undefined;
  #isAscii = true;
  #closes = false;

  /** `body` is all of it, or undefined where there is none or parts of it are still to come. */
  constructor(owner: PlainOwner, head: PlainHead, body: Buffer | undefined, startMs: number) {
    this.#owner = owner;
    this.head = head;
    this.#read = body;
    this.#missing = body === undefined ? (head.contentLength ?? 0) : 0;
    this.startMs = startMs;
  }

  get complete(): boolean {
    return this.#missing === 0;
  }

  get latest(): boolean {
    return this.#owner.isLatest(this);
  }

  get gone(): boolean {
    return this.#cut || this.#owner.gone;
  }

  /** Somebody takes the next part of its body, or throws it away. */
  get takesBody(): boolean {
    return this.#body !== 'undecided';
  }

  get bytesMissing(): number {
    return this.#missing;
  }

  /** The whole response, or its head where the body is bytes; undefined before `respond`. */
  get answer(): string | undefined {
    return this.#answer;
  }

  get answerBody(): readonly Buffer[] | undefined {
    return this.#answerBody;
  }

  get answerIsAscii(): boolean {
    return this.#isAscii;
  }

  /** The connection ends behind the answer. */
  get closes(): boolean {
    return this.#closes;
  }

  restMayExceed(bytes: number): boolean {
    return this.#missing > bytes;
  }

  body(bytesMax: number, taker: BodyTaker): void {
    assert(this.#taker === undefined, 'a body has one taker');
    this.#taker = taker;
    if (this.#missing === 0) {
      const body = this.#read ?? NOTHING;
      this.#read = undefined;
      this.#body = 'abandoned';
      taker.bodyRead(body);
    } else if (this.#missing > bytesMax) {
      this.#abandonBody();
      taker.bodyRead('too large');
    } else {
      this.#body = 'wanted';
      this.#owner.bodyDecided();
    }
  }

  /** The next part of the body has come. */
  take(part: Buffer): void {
    assert(part.length <= this.#missing, 'a part of a body is no longer than the rest of it');
    assert(this.#body !== 'undecided', 'a part of a body is taken once its use is decided');
    const announced = this.head.contentLength ?? 0;
    const before = announced - this.#missing;
    this.#missing -= part.length;
    if (this.#body !== 'wanted') return;
    const body = this.#read === undefined ? part : withPiece(this.#read, before, part, announced);
    this.#read = this.#missing > 0 ? body : undefined;
    if (this.#missing > 0) return;
    this.#body = 'abandoned';
    this.#taker?.bodyRead(body);
  }

  /** The rest of the body will not come. */
  cut(): void {
    const wanted = this.#body === 'wanted';
    this.#body = 'abandoned';
    this.#read = undefined;
    this.#cut = true;
    if (wanted) this.listener?.aborted();
  }

  /** The rest of the body did not come in time. False where the request was answered before. */
  late(): boolean {
    return this.listener?.fault('timeout') ?? false;
  }

  respond(requestId: string, answer: Answer, close: boolean): boolean {
    if (this.#answer !== undefined || this.gone) return false;
    const bytes = bytesOf(answer.body);
    if (typeof answer.body === 'string') this.#isAscii = bytes === answer.body.length;
    else this.#answerBody = answer.body;
    this.#closes = close;
    const { keepAlive, clock } = this.#owner;
    this.#answer = responseText(requestId, answer, bytes, close ? 'Connection: close\r\n' : keepAlive, clock);
    this.#abandonBody(); // An answer that comes before the body has: the rest is not wanted.
    this.#owner.answered(this);
    return true;
  }

  #abandonBody(): void {
    this.#read = undefined;
    if (this.#body === 'abandoned') return;
    this.#body = 'abandoned';
    if (this.#missing > 0) this.#owner.bodyDecided();
  }
}

const NOTHING = Buffer.alloc(0);
