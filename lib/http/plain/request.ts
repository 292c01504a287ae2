// A plain request, and its answer once there is one.
import type { Clock } from '../../process/clock.ts';
import { assert } from '../assert.ts';
import { withPiece } from '../body-pieces.ts';
import type { BodyTaker, HttpRequest, RequestListener } from '../request.ts';
import { bytesOf, responseText, type Answer } from '../respond.ts';
import type { PlainHead } from './head.ts';

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
