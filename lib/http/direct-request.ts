// A plain request that was read straight off its connection.
import type { DirectReader } from './direct-reader.ts';
import type { RequestHead } from './request-head.ts';
import type { BodySink, HttpRequest } from './request.ts';
import { responseText } from './respond.ts';

const NOTHING = Buffer.alloc(0);

export class DirectRequest implements HttpRequest {
  readonly expectsContinue = false;
  readonly #reader: DirectReader;
  readonly #head: RequestHead;
  /** How many bytes of the body are still to come. */
  #missing: number;
  /** When its head came, by `performance.now()`; 0 where all of it came at once. */
  readonly arrivingSinceMs: number;
  #parts: Buffer[] | undefined;
  /** A body that came before somebody wanted it. */
  #early: Buffer | undefined;
  #sink: BodySink | undefined;
  #abandoned = false;
  #cut = false;

  /** The whole answer, once there is one. `wide`: it holds more than ASCII. */
  answer: string | undefined;
  wide = false;
  closes = false;

  /** `body` is all of it, or undefined where there is none or parts of it are still to come. */
  constructor(reader: DirectReader, head: RequestHead, body: Buffer | undefined) {
    this.#reader = reader;
    this.#head = head;
    this.#early = body;
    this.#missing = body === undefined ? (head.contentLength ?? 0) : 0;
    this.arrivingSinceMs = this.#missing === 0 ? 0 : performance.now();
  }

  get method(): string {
    return this.#head.method;
  }

  get target(): string {
    return this.#head.target;
  }

  get fieldCount(): number {
    return this.#head.fieldCount;
  }

  get contentType(): string | undefined {
    return this.#head.contentType;
  }

  get contentEncoding(): string | undefined {
    return this.#head.contentEncoding;
  }

  get contentLength(): number | undefined {
    return this.#head.contentLength;
  }

  get authorization(): string | undefined {
    return this.#head.authorization;
  }

  get givenRequestId(): string | undefined {
    return this.#head.requestId;
  }

  get complete(): boolean {
    return this.#missing === 0;
  }

  get latest(): boolean {
    return this.#reader.latest === this;
  }

  get gone(): boolean {
    return this.#cut || this.#reader.gone;
  }

  /** True where a part of its body can be taken now. */
  get wanted(): boolean {
    return this.#sink !== undefined || this.#abandoned;
  }

  bodyMayExceed(bytes: number): boolean {
    return this.#missing > bytes;
  }

  continue(): void {
    // Nobody waits: a request that does is not plain.
  }

  /** Takes what belongs to the body from `chunk`, from `at` on; gives how many bytes that was. */
  take(chunk: Buffer, at: number): number {
    const part = chunk.subarray(at, at + this.#missing);
    this.#missing -= part.length;
    if (this.#sink !== undefined) (this.#parts ??= []).push(part);
    if (this.#missing === 0 && this.#sink !== undefined) {
      const sink = this.#sink;
      this.#sink = undefined;
      sink.bodyRead(Buffer.concat(this.#parts ?? []));
    }
    return part.length;
  }

  readBody(bytesMax: number, sink: BodySink): void {
    if (this.#missing > bytesMax) {
      this.abandonBody();
      sink.bodyTooLarge();
    } else if (this.#missing > 0) {
      this.#sink = sink;
      this.#reader.wanted();
    } else {
      const body = this.#early ?? NOTHING;
      this.#early = undefined;
      sink.bodyRead(body);
    }
  }

  abandonBody(): void {
    this.#sink = undefined;
    this.#parts = undefined;
    this.#early = undefined;
    if (this.#abandoned) return;
    this.#abandoned = true;
    this.#reader.wanted();
  }

  /** The rest of the body will not come. */
  aborted(): void {
    const sink = this.#sink;
    this.#sink = undefined;
    this.#cut = true;
    sink?.bodyAborted();
  }

  respond(
    requestId: string,
    status: number,
    contentType: string,
    body: string,
    close: boolean,
    extra?: readonly string[],
  ): boolean {
    if (this.answer !== undefined || this.gone) return false;
    const bytes = Buffer.byteLength(body);
    this.answer = responseText(
      requestId,
      status,
      contentType,
      body,
      bytes,
      close ? 'Connection: close\r\n' : this.#reader.keepAlive,
      extra,
    );
    this.wide = bytes !== body.length;
    this.closes = close;
    // An answer that is given early: nobody reads the body any more.
    if (this.#sink === undefined && !this.#abandoned) this.abandonBody();
    this.#reader.answered(this);
    return true;
  }
}
