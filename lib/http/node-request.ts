// A request that node:http has read.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type {
  HeaderField,
  HttpRequest,
  ProtocolFault,
  RequestDefect,
  RequestHead,
  RequestListener,
} from './request.ts';
import type { Answer } from './respond.ts';

/** Maximum number of header fields. */
export const FIELDS_MAX = 100;
/** A body without an announced length may have this many pieces of less than PIECE_BYTES_MIN bytes on average. */
const PIECES_MAX = 1_024;
/** Chunks of 16 bytes, some of which were cut by the slices. */
const PIECE_BYTES_MIN = 15.5;
/** This many pieces are joined, because each is a Buffer of at least 200 bytes, and the client chooses its length. */
const PIECES_JOINED = 256;
/**
 * A connection with a longer unread rest of a body closes after the answer; a shorter rest is read and discarded. A
 * client whose body is refused for its length may not send it, so that connection always closes.
 */
const REST_BYTES_MAX = 65_536;
const SLICE_BYTES_MAX = 65_536;
/** Slice of a body whose end is unknown. node:http needs 2 µs for each of its chunks. */
const CHUNKED_SLICE_BYTES = 1_024;

interface Owner {
  respond(request: NodeRequest, requestId: string, answer: Answer, close: boolean): void;
  readOn(): void;
}

type Body = Buffer | 'too large' | undefined;

export class NodeRequest implements HttpRequest {
  readonly head: RequestHead;
  readonly message: IncomingMessage;
  readonly response: ServerResponse;
  listener: RequestListener | undefined;
  body = undefined;
  isAnswered = false;
  /** True if no request may follow this one: the connection closes after its answer. */
  readonly isLast: boolean;
  readonly #owner: Owner;
  /** True if the client waits for 100 (Continue). */
  #expectsContinue: boolean;
  /** Set while the body is being read. */
  #done: ((body: Body) => void) | undefined;
  #parts: Buffer[] = [];
  #bytes = 0;
  #pieces = 0;

  constructor(owner: Owner, message: IncomingMessage, response: ServerResponse, expectsContinue: boolean) {
    this.#owner = owner;
    this.message = message;
    this.response = response;
    this.#expectsContinue = expectsContinue;
    this.head = headOf(message);
    // Another protocol may follow an Upgrade (RFC 9110, section 7.8). HTTP/1.0 has no Transfer-Encoding, so a proxy
    // may have found the end of the body elsewhere (RFC 9112, section 6.1).
    const { headers, httpVersionMinor } = message;
    const oddEnd = httpVersionMinor === 0 && headers['transfer-encoding'] !== undefined;
    this.isLast = this.head.defect !== undefined || headers.upgrade !== undefined || oddEnd;
  }

  get isComplete(): boolean {
    return this.message.complete;
  }
  /** True if the rest of the body is read or discarded. */
  get wantsBody(): boolean {
    return this.#done !== undefined || this.isAnswered;
  }
  /** Maximum number of bytes to read next, so that little after the body is read. */
  get sliceBytes(): number {
    const { contentLength } = this.head;
    if (contentLength === undefined || this.#done === undefined) return CHUNKED_SLICE_BYTES;
    return Math.min(contentLength - this.#bytes, SLICE_BYTES_MAX);
  }

  receive(bytesMax: number, grows: (bytes: number) => void): Promise<Body> {
    if (this.#expectsContinue) this.response.writeContinue();
    this.#expectsContinue = false;
    return new Promise((resolve) => {
      this.#done = resolve;
      this.message.on('data', (piece: Buffer) => this.#take(piece, bytesMax, grows));
      this.message.on('end', () => this.#bodyEnds(this.#joined));
      this.message.on('close', () => {
        if (this.#done !== undefined) this.listener?.aborted();
        this.#bodyEnds(undefined);
      });
      this.#owner.readOn();
    });
  }

  /** Reports that the rest of the request cannot be read. Returns false if the request already has an answer. */
  fault(fault: ProtocolFault): boolean {
    return this.listener?.fault(fault) ?? false;
  }

  respond(requestId: string, answer: Answer, close: boolean): void {
    if (this.isAnswered || this.response.destroyed) return;
    this.isAnswered = true;
    this.#bodyEnds(undefined);
    // If the client was not told to continue, it may send the body or not, so the next request cannot be found.
    const rest = this.head.contentLength ?? (this.message.headers['transfer-encoding'] ? Infinity : 0);
    const isLong = !this.isComplete && rest > (answer.status === 413 ? 0 : REST_BYTES_MAX);
    const last = close || this.isLast || this.#expectsContinue || isLong || !this.response.shouldKeepAlive;
    this.#owner.respond(this, requestId, answer, last);
  }

  #take(piece: Buffer, bytesMax: number, grows: (bytes: number) => void): void {
    if (this.#done === undefined) return;
    this.#bytes += piece.length;
    this.#pieces += 1;
    if (this.#bytes > bytesMax) return this.#bodyEnds('too large');
    if (this.head.contentLength === undefined) {
      const isTiny = this.#pieces > PIECES_MAX && this.#bytes < PIECE_BYTES_MIN * this.#pieces;
      if (isTiny) return void this.fault('tinyChunks');
      grows(piece.length);
    }
    this.#parts.push(piece);
    if (this.#parts.length === PIECES_JOINED) this.#parts = [this.#joined];
  }

  get #joined(): Buffer {
    const [first] = this.#parts;
    return first?.length === this.#bytes ? first : Buffer.concat(this.#parts);
  }

  #bodyEnds(body: Body): void {
    this.#done?.(body);
    this.#done = undefined;
    this.#parts = [];
  }
}

function headOf(message: IncomingMessage): RequestHead {
  const { method = '', url = '', headers, headersDistinct } = message;
  const length = headers['content-length'];
  const requestIds = headersDistinct['x-request-id'];
  const cloudEventFields = Object.entries(headersDistinct)
    .filter(([name]) => name.startsWith('ce-'))
    .flatMap(([name, values = []]) => values.map((value): HeaderField => [name, value]));
  return {
    method,
    target: url,
    defect: defectOf(message),
    contentType: headers['content-type'],
    contentEncoding: headers['content-encoding'],
    contentLength: length === undefined ? undefined : Number(length),
    authorization: headers.authorization,
    cloudEventFields: cloudEventFields.length > 0 ? cloudEventFields : undefined,
    // Node joins the values of a repeated field.
    traceparent: headers['traceparent'] as string | undefined,
    tracestate: headers['tracestate'] as string | undefined,
    requestId: requestIds?.length === 1 ? requestIds[0] : undefined,
  };
}

/** A name, an IPv4 address, or an IPv6 address in brackets, with an optional port (RFC 9112, section 3.2). */
const HOST = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=%-]+)(?::\d{0,5})?$/;

function defectOf(message: IncomingMessage): RequestDefect | undefined {
  const { headers, headersDistinct, httpVersionMajor, httpVersionMinor, rawHeaders } = message;
  const count = (name: string): number => headersDistinct[name]?.length ?? 0;
  if (httpVersionMajor !== 1) return 'version';
  if ((headers['transfer-encoding'] ?? 'chunked').toLowerCase() !== 'chunked') return 'transferCoding';
  // HTTP/1.0 does not need a Host.
  if (count('host') > 1 || !HOST.test(headers.host ?? (httpVersionMinor > 0 ? '' : 'none'))) return 'host';
  if (count('content-type') > 1 || count('authorization') > 1) return 'repeatedField';
  return rawHeaders.length > 2 * FIELDS_MAX ? 'tooManyFields' : undefined;
}
