import type { IncomingMessage, ServerResponse } from 'node:http';
import { assert } from '../assert.ts';
import { withPiece } from '../body-pieces.ts';
import type {
  BodyTaker,
  HeaderField,
  HttpRequest,
  ProtocolFault,
  RequestDefect,
  RequestHead,
  RequestListener,
} from '../request.ts';
import { respond, type Answer } from '../respond.ts';

export interface NodeRequestOwner {
  answered(request: NodeRequest, close: boolean): void;
}

export class NodeRequest implements HttpRequest {
  readonly head: RequestHead;
  readonly expectsContinue: boolean;
  listener: RequestListener | undefined;
  body = undefined;
  /** True if no request may follow this one: the connection closes after its answer. */
  readonly isLast: boolean;
  /** When the head arrived, by `Clock.ms()`. */
  readonly startMs: number;
  readonly #owner: NodeRequestOwner;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  /** `undefined` once the body has been read, refused or abandoned. */
  #taker: BodyTaker | undefined;
  /** The part of the body that has arrived, in a buffer that may have room for more. */
  #read: Buffer = EMPTY;
  #bytes = 0;
  #continued = false;

  constructor(
    owner: NodeRequestOwner,
    request: IncomingMessage,
    response: ServerResponse,
    expectsContinue: boolean,
    startMs: number,
  ) {
    this.#owner = owner;
    this.startMs = startMs;
    this.#request = request;
    this.#response = response;
    this.expectsContinue = expectsContinue;
    this.head = headOf(request);
    // Another protocol may follow an Upgrade (RFC 9110, section 7.8). HTTP/1.0 has no Transfer-Encoding, so a proxy
    // may have found the end of the body elsewhere (RFC 9112, section 6.1).
    const { headers, httpVersionMinor } = request;
    const oddEnd = httpVersionMinor === 0 && headers['transfer-encoding'] !== undefined;
    this.isLast = this.head.defect !== undefined || headers.upgrade !== undefined || oddEnd;
  }

  get complete(): boolean {
    return this.#request.complete;
  }

  get answered(): boolean {
    return this.#response.headersSent;
  }

  get gone(): boolean {
    // Node also destroys the message of a request whose body has been read.
    return this.#response.destroyed || (this.#request.destroyed && !this.complete);
  }

  restMayExceed(bytes: number): boolean {
    if (this.complete) return false;
    const { contentLength } = this.head;
    const { 'transfer-encoding': coding } = this.#request.headers;
    return this.expectsContinue || (contentLength === undefined ? coding !== undefined : contentLength > bytes);
  }

  receive(bytesMax: number, taker: BodyTaker): void {
    assert(this.#taker === undefined, 'a body has one taker');
    if (this.expectsContinue) {
      this.#continued = true;
      this.#response.writeContinue();
    }
    this.#taker = taker;
    this.#request.on('data', (piece: Buffer) => this.#take(piece, bytesMax));
    this.#request.on('end', () => this.#bodyEnds()?.bodyRead(this.#read.subarray(0, this.#bytes)));
    this.#request.on('close', () => {
      if (this.#bodyEnds() !== undefined) this.listener?.aborted();
    });
  }

  /** Reports that the rest of the request cannot be read. Returns false if the request already has an answer. */
  fault(fault: ProtocolFault): boolean {
    return this.listener?.fault(fault) ?? false;
  }

  respond(requestId: string, answer: Answer, close: boolean): void {
    // If the client was not told to continue, node:http closes the connection, because the body may still follow.
    const last = close || this.isLast || (this.expectsContinue && !this.#continued);
    if (!respond(this.#response, requestId, answer, last)) return;
    this.#bodyEnds();
    this.#request.resume(); // Discards the rest of the body.
    this.#owner.answered(this, last);
  }

  #take(piece: Buffer, bytesMax: number): void {
    const taker = this.#taker;
    if (taker === undefined) return;
    const before = this.#bytes;
    const end = before + piece.length;
    if (end > bytesMax) {
      this.#bodyEnds();
      taker.bodyRead('too large');
      return;
    }
    const { contentLength } = this.head;
    if (contentLength === undefined) taker.bodyGrows(piece.length);
    const room = Math.min(contentLength ?? GROWTH * end, bytesMax);
    this.#read = before === 0 ? piece : withPiece(this.#read, before, piece, room);
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

function headOf(request: IncomingMessage): RequestHead {
  const { method = '', url = '', headers, rawHeaders } = request;
  const length = headers['content-length'];
  return {
    method,
    target: url,
    defect: defectOf(request),
    fieldCount: rawHeaders.length / 2,
    contentType: headers['content-type'],
    contentEncoding: headers['content-encoding'],
    contentLength: length === undefined ? undefined : Number(length),
    authorization: headers.authorization,
    cloudEventFields: cloudEventFieldsOf(rawHeaders),
    // Node joins the values of a repeated field.
    traceparent: headers['traceparent'] as string | undefined,
    tracestate: headers['tracestate'] as string | undefined,
    requestId: headers['x-request-id'] as string | undefined,
  };
}

function cloudEventFieldsOf(rawHeaders: readonly string[]): readonly HeaderField[] | undefined {
  let fields: HeaderField[] | undefined;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]?.toLowerCase() ?? '';
    if (name.startsWith('ce-')) (fields ??= []).push([name, rawHeaders[at + 1] ?? '']);
  }
  return fields;
}

/** A name, an IPv4 address, or an IPv6 address in brackets, with an optional port (RFC 9112, section 3.2). */
const HOST = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=%-]+)(?::\d{0,5})?$/;

export function defectOf(request: IncomingMessage): RequestDefect | undefined {
  const { headers, httpVersionMajor, httpVersionMinor, rawHeaders } = request;
  if (httpVersionMajor !== 1) return 'version';
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') return 'transferCoding';
  let hosts = 0;
  let types = 0;
  let credentials = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]?.toLowerCase();
    if (name === 'host') hosts += 1;
    else if (name === 'content-type') types += 1;
    else if (name === 'authorization') credentials += 1;
  }
  if (hosts > 1 || (hosts === 0 && httpVersionMinor > 0)) return 'host';
  if (headers.host !== undefined && !HOST.test(headers.host)) return 'host';
  return types > 1 || credentials > 1 ? 'repeatedField' : undefined;
}
