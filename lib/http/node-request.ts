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
const PIECE_BYTES_MIN = 16;
/** A body without an announced length gets a buffer of this many times the bytes that have arrived. */
const GROWTH = 2;
/**
 * A connection with a longer unread rest of a body closes after the answer; a shorter rest is read and discarded. A
 * client whose body is refused for its length may not send it, so that connection always closes.
 */
const REST_BYTES_MAX = 65_536;

interface Owner {
  respond(request: NodeRequest, requestId: string, answer: Answer, close: boolean): void;
  readOn(): void;
}

export class NodeRequest implements HttpRequest {
  readonly head: RequestHead;
  readonly message: IncomingMessage;
  readonly response: ServerResponse;
  listener: RequestListener | undefined;
  body = undefined;
  isAnswered = false;
  /** Number of slices in which a chunked body was read. Each may have cut a chunk. */
  slices = 0;
  /** True if no request may follow this one: the connection closes after its answer. */
  readonly isLast: boolean;
  readonly #owner: Owner;
  /** True if the client waits for 100 (Continue). */
  #expectsContinue: boolean;
  /** Set while the body is being read. */
  #done: ((body: Buffer | 'too large' | undefined) => void) | undefined;
  /** The part of the body that has arrived, in a buffer that may have room for more. */
  #read: Buffer = EMPTY;
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

  receive(bytesMax: number, grows: (bytes: number) => void): Promise<Buffer | 'too large' | undefined> {
    if (this.#expectsContinue) {
      this.#expectsContinue = false;
      this.response.writeContinue();
    }
    return new Promise((resolve) => {
      this.#done = resolve;
      this.message.on('data', (piece: Buffer) => this.#take(piece, bytesMax, grows));
      this.message.on('end', () => this.#bodyEnds(this.#read.subarray(0, this.#bytes)));
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

  // Fact: each piece is a separate Buffer that takes at least 200 bytes of memory, and the client chooses its length.
  // 60 bodies of 256 KiB in one-byte chunks took 6 GB. Choice: from the second piece on, all pieces share one buffer,
  // and bodies in tiny pieces are refused.
  #take(piece: Buffer, bytesMax: number, grows: (bytes: number) => void): void {
    if (this.#done === undefined) return;
    const before = this.#bytes;
    const end = before + piece.length;
    const { contentLength } = this.head;
    this.#pieces += 1;
    const chunks = this.#pieces - this.slices;
    if (contentLength === undefined && chunks > PIECES_MAX && end < PIECE_BYTES_MIN * chunks) {
      this.fault('tinyChunks');
      return;
    }
    if (end > bytesMax) return this.#bodyEnds('too large');
    if (contentLength === undefined) grows(piece.length);
    if (end > this.#read.length && before > 0) {
      const longer = Buffer.allocUnsafe(Math.max(end, Math.min(contentLength ?? GROWTH * end, bytesMax)));
      this.#read.copy(longer, 0, 0, before);
      this.#read = longer;
    }
    if (before === 0) this.#read = piece;
    else piece.copy(this.#read, before);
    this.#bytes = end;
  }

  #bodyEnds(body: Buffer | 'too large' | undefined): void {
    const done = this.#done;
    this.#done = undefined;
    this.#read = EMPTY;
    done?.(body);
  }
}

const EMPTY = Buffer.alloc(0);

function headOf(message: IncomingMessage): RequestHead {
  const { method = '', url = '', headers, headersDistinct } = message;
  const length = headers['content-length'];
  const requestIds = headersDistinct['x-request-id'];
  const cloudEventFields = Object.entries(headersDistinct).flatMap(([name, values = []]) =>
    name.startsWith('ce-') ? values.map((value): HeaderField => [name, value]) : [],
  );
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
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') return 'transferCoding';
  if (count('host') > 1 || (headers.host === undefined && httpVersionMinor > 0)) return 'host';
  if (headers.host !== undefined && !HOST.test(headers.host)) return 'host';
  if (count('content-type') > 1 || count('authorization') > 1) return 'repeatedField';
  return rawHeaders.length > 2 * FIELDS_MAX ? 'tooManyFields' : undefined;
}
