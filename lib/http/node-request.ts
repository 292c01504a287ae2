// A request that node:http has read.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { assert } from './assert.ts';
import type {
  BodyTaker,
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

interface Owner {
  isLatest(request: NodeRequest): boolean;
  respond(request: NodeRequest, requestId: string, answer: Answer, close: boolean): void;
  /** A handler has decided to read or to discard a body that is arriving. */
  bodyDecided(): void;
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
  /** True if the client waits for 100 (Continue). */
  expectsContinue: boolean;
  /** True once the body is being read or discarded. */
  isBodyDecided = false;
  /** True if no request may follow this one: the connection closes after its answer. */
  readonly isLast: boolean;
  readonly #owner: Owner;
  /** `undefined` once the body has been read, refused or abandoned. */
  #taker: BodyTaker | undefined;
  /** The part of the body that has arrived, in a buffer that may have room for more. */
  #read: Buffer = EMPTY;
  #bytes = 0;
  #pieces = 0;

  constructor(owner: Owner, message: IncomingMessage, response: ServerResponse, expectsContinue: boolean) {
    this.#owner = owner;
    this.message = message;
    this.response = response;
    this.expectsContinue = expectsContinue;
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

  get gone(): boolean {
    // Node also destroys the message of a request whose body has been read.
    return this.response.destroyed || (this.message.destroyed && !this.isComplete);
  }

  get isLatest(): boolean {
    return this.#owner.isLatest(this);
  }

  restMayExceed(bytes: number): boolean {
    if (this.isComplete) return false;
    const { contentLength } = this.head;
    return (
      this.expectsContinue || (contentLength ?? (this.message.headers['transfer-encoding'] ? Infinity : 0)) > bytes
    );
  }

  receive(bytesMax: number, taker: BodyTaker): void {
    assert(this.#taker === undefined, 'a body has one taker');
    if (this.expectsContinue) {
      this.expectsContinue = false;
      this.response.writeContinue();
    }
    this.#taker = taker;
    this.isBodyDecided = true;
    this.message.on('data', (piece: Buffer) => this.#take(piece, bytesMax));
    this.message.on('end', () => this.#bodyEnds()?.bodyRead(this.#read.subarray(0, this.#bytes)));
    this.message.on('close', () => {
      if (this.#bodyEnds() !== undefined) this.listener?.aborted();
    });
    this.#owner.bodyDecided();
  }

  /** Reports that the rest of the request cannot be read. Returns false if the request already has an answer. */
  fault(fault: ProtocolFault): boolean {
    return this.listener?.fault(fault) ?? false;
  }

  respond(requestId: string, answer: Answer, close: boolean): void {
    if (this.isAnswered || this.response.destroyed) return;
    this.isAnswered = true;
    this.#bodyEnds();
    this.#read = EMPTY;
    // If the client was not told to continue, it may send the body or not, so the next request cannot be found.
    const last = close || this.isLast || this.expectsContinue || !this.response.shouldKeepAlive;
    this.#owner.respond(this, requestId, answer, last);
  }

  // Fact: each piece is a separate Buffer that takes at least 200 bytes of memory, and the client chooses its length.
  // 60 bodies of 256 KiB in one-byte chunks took 6 GB. Choice: from the second piece on, all pieces share one buffer,
  // and bodies in tiny pieces are refused.
  #take(piece: Buffer, bytesMax: number): void {
    const taker = this.#taker;
    if (taker === undefined) return;
    const before = this.#bytes;
    const end = before + piece.length;
    const { contentLength } = this.head;
    this.#pieces += 1;
    const chunks = this.#pieces - this.slices;
    if (contentLength === undefined && chunks > PIECES_MAX && end < PIECE_BYTES_MIN * chunks) {
      this.fault('tinyChunks');
      return;
    }
    if (end > bytesMax) {
      this.#bodyEnds();
      this.#read = EMPTY;
      taker.bodyRead('too large');
      return;
    }
    if (contentLength === undefined) taker.bodyGrows(piece.length);
    if (end > this.#read.length && before > 0) {
      const longer = Buffer.allocUnsafe(Math.max(end, Math.min(contentLength ?? GROWTH * end, bytesMax)));
      this.#read.copy(longer, 0, 0, before);
      this.#read = longer;
    }
    if (before === 0) this.#read = piece;
    else piece.copy(this.#read, before);
    this.#bytes = end;
  }

  /** Stops calling the taker. Returns it if it was still expecting calls. */
  #bodyEnds(): BodyTaker | undefined {
    const taker = this.#taker;
    this.#taker = undefined;
    return taker;
  }
}

/** A body without an announced length gets a buffer of this many times the bytes that have arrived. */
const GROWTH = 2;
const EMPTY = Buffer.alloc(0);

function headOf(message: IncomingMessage): RequestHead {
  const { method = '', url = '', headers, rawHeaders } = message;
  const length = headers['content-length'];
  return {
    method,
    target: url,
    defect: defectOf(message),
    contentType: headers['content-type'],
    contentEncoding: headers['content-encoding'],
    contentLength: length === undefined ? undefined : Number(length),
    authorization: headers.authorization,
    cloudEventFields: fieldsThat(rawHeaders, (name) => name.startsWith('ce-')),
    // Node joins the values of a repeated field.
    traceparent: headers['traceparent'] as string | undefined,
    tracestate: headers['tracestate'] as string | undefined,
    requestId: requestIdOf(message),
  };
}

function requestIdOf({ headers, rawHeaders }: IncomingMessage): string | undefined {
  if (headers['x-request-id'] === undefined) return undefined;
  const given = fieldsThat(rawHeaders, (name) => name === 'x-request-id');
  return given?.length === 1 ? given[0]?.[1] : undefined;
}

function fieldsThat(raw: readonly string[], matches: (name: string) => boolean): readonly HeaderField[] | undefined {
  let fields: HeaderField[] | undefined;
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at]?.toLowerCase() ?? '';
    if (matches(name)) (fields ??= []).push([name, raw[at + 1] ?? '']);
  }
  return fields;
}

/** A name, an IPv4 address, or an IPv6 address in brackets, with an optional port (RFC 9112, section 3.2). */
const HOST = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=%-]+)(?::\d{0,5})?$/;

function defectOf({ headers, httpVersionMajor, httpVersionMinor, rawHeaders }: IncomingMessage) {
  const defect = (name: RequestDefect): RequestDefect => name;
  if (httpVersionMajor !== 1) return defect('version');
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') return defect('transferCoding');
  let [hosts, types, credentials] = [0, 0, 0];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]?.toLowerCase();
    if (name === 'host') hosts += 1;
    else if (name === 'content-type') types += 1;
    else if (name === 'authorization') credentials += 1;
  }
  if (hosts > 1 || (hosts === 0 && httpVersionMinor > 0)) return defect('host');
  if (headers.host !== undefined && !HOST.test(headers.host)) return defect('host');
  if (types > 1 || credentials > 1) return defect('repeatedField');
  return rawHeaders.length > 2 * FIELDS_MAX ? defect('tooManyFields') : undefined;
}
