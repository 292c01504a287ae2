// A request that node:http has read: its head, its body, and its answer, which node:http writes.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { Connection } from './connection.ts';
import type { HeaderField, HttpRequest, ProtocolFault, Received, RequestDefect, RequestHead } from './request.ts';
import type { Answer } from './respond.ts';

export const FIELDS_MAX = 100;
/** Maximum length of a slice whose end is unknown. */
export const SLICE_BYTES = 1_024;
/** A chunked body may have this many pieces of less than 16 bytes on average. Some were cut by the slices. */
const [PIECES_MAX, PIECE_BYTES_MIN] = [1_024, 15.5];
/** The rest of a longer body is not discarded after the answer: the connection closes. */
const REST_BYTES_MAX = 65_536;
/** A long answer is written in pieces, each after the client has read most of the one before. */
const PIECE_BYTES = 65_536;

export class NodeRequest<T> implements HttpRequest {
  readonly head: RequestHead;
  readonly message: IncomingMessage;
  body = undefined;
  isAnswered = false;
  /** True until the answer has been written. */
  isOwed = true;
  /** True if the connection closes after the answer. */
  isLast: boolean;
  /** Length of the answer that is being written, and of what node:http has got of the body. */
  answerBytes = 0;
  passedBytes = 0;
  readonly #connection: Connection<T>;
  readonly #response: ServerResponse;
  #expectsContinue: boolean;
  /** Set while the body is being read. */
  #done: ((body: Received) => void) | undefined;

  /** `method` replaces that of the message. */
  constructor(
    connection: Connection<T>,
    message: IncomingMessage,
    response: ServerResponse,
    expectsContinue: boolean,
    method = message.method,
  ) {
    this.#connection = connection;
    this.message = message;
    this.#response = response;
    this.#expectsContinue = expectsContinue;
    this.head = headOf(message, method);
    // Another protocol may follow an Upgrade (RFC 9110, section 7.8). HTTP/1.0 has no Transfer-Encoding, so a proxy
    // may have found the end of the body elsewhere (RFC 9112, section 6.1).
    const { headers, httpVersionMinor } = message;
    const oddEnd = httpVersionMinor === 0 && headers['transfer-encoding'] !== undefined;
    this.isLast = this.head.defect !== undefined || headers.upgrade !== undefined || oddEnd;
    response.once('close', () => {
      [this.isOwed, this.answerBytes] = [false, 0];
      connection.wake();
    });
  }

  /** True if more of the body may be read, or discarded. Chunks may be broken, which the answer should say. */
  get isWanted(): boolean {
    const isUnknown = this.head.contentLength === undefined && this.passedBytes === 0;
    return this.#done !== undefined || this.isAnswered || isUnknown;
  }

  receive(bytesMax: number, grows: (bytes: number) => void): Promise<Received> {
    if (this.#expectsContinue) this.#response.writeContinue();
    this.#expectsContinue = false;
    const { contentLength } = this.head;
    const { promise, resolve } = Promise.withResolvers<Received>();
    // Pieces are copied as they arrive, so that a body is not held twice.
    let body = Buffer.allocUnsafeSlow(contentLength ?? SLICE_BYTES);
    let [pieces, bytes] = [0, 0];
    this.#done = (received) => {
      this.#done = undefined;
      body = Buffer.alloc(0);
      resolve(received);
    };
    this.message.on('data', (piece: Buffer) => {
      if (this.#done === undefined) return;
      const end = bytes + piece.length;
      if (end > bytesMax) return this.#done('too large');
      pieces += 1;
      if (contentLength === undefined) {
        const isTiny = pieces > PIECES_MAX && end < PIECE_BYTES_MIN * pieces;
        this.isLast ||= isTiny;
        if (isTiny) return this.#done('tinyChunks');
        grows(piece.length);
        if (end > body.length) body = Buffer.concat([body], Math.min(2 * end, bytesMax));
      }
      piece.copy(body, bytes);
      bytes = end;
    });
    this.message.on('end', () => this.#done?.(body.subarray(0, bytes)));
    this.message.on('close', () => this.#done?.(undefined));
    this.cut();
    this.#connection.wake();
    return promise;
  }

  get fault(): ProtocolFault | undefined {
    return this.message.complete ? undefined : this.#connection.fault;
  }
  cut(): void {
    if (this.fault !== undefined) this.#done?.(this.fault);
  }

  respond(requestId: string, answer: Answer, close: boolean): void {
    const { message, head } = this;
    const [response, connection] = [this.#response, this.#connection];
    if (this.isAnswered || response.destroyed) return;
    this.isAnswered = true;
    this.#done?.(undefined);
    // A client whose body is refused for its length may not send it.
    const bodyBytes = head.contentLength ?? (message.headers['transfer-encoding'] === undefined ? 0 : Infinity);
    const isLong = bodyBytes > (answer.status === 413 ? 0 : REST_BYTES_MAX);
    const isCut = !message.complete && (isLong || connection.fault !== undefined);
    // If the client was not told to continue, it may send the body or not, so the next request cannot be found.
    this.isLast ||= close || this.#expectsContinue || isCut || connection.closesAfter(this);
    connection.isRetiring ||= this.isLast;
    if (this.isLast) response.shouldKeepAlive = false;
    this.#write(requestId, answer);
    connection.wake();
  }

  #write(requestId: string, { status, contentType, body, headers = [], isOnlyCopy = false }: Answer): void {
    const response = this.#response;
    const parts = typeof body === 'string' ? [Buffer.from(body)] : body;
    this.answerBytes = parts.reduce((bytes, part) => bytes + part.length, 0);
    const own = ['Content-Type', contentType, 'Content-Length', String(this.answerBytes), 'X-Request-Id', requestId];
    response.writeHead(status, [...own, ...headers]);
    // Node writes the head in the encoding of a body that is a string, and a request id has one byte per character.
    if (typeof body === 'string') return void response.end(parts[0]?.toString('latin1'), 'latin1');
    if (isOnlyCopy) response.once('close', () => parts.forEach(free));
    Readable.from(piecesOf(parts), { highWaterMark: 1 }).pipe(response);
  }
}

function* piecesOf(parts: readonly Buffer[]): Generator<Buffer> {
  for (const part of parts)
    for (let at = 0; at < part.length; at += PIECE_BYTES) yield part.subarray(at, at + PIECE_BYTES);
}

// V8 does not collect garbage because of 64 MB of buffers.
function free({ buffer, byteLength }: Buffer): void {
  if (byteLength !== buffer.byteLength) return; // Other buffers may be in the same memory.
  try {
    (buffer as ArrayBuffer).transfer(0);
  } catch {
    // Node does not let the memory of short buffers be transferred.
  }
}

export function faultOf({ code }: NodeJS.ErrnoException): ProtocolFault {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'timeout';
  return code === 'HPE_HEADER_OVERFLOW' ? 'headersTooLarge' : 'malformed';
}

function headOf(message: IncomingMessage, method = ''): RequestHead {
  const { url = '', headers, headersDistinct } = message;
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
  if ((headers['transfer-encoding'] ?? 'chunked').toLowerCase() !== 'chunked') return 'transferCoding';
  // HTTP/1.0 does not need a Host.
  if (count('host') > 1 || !HOST.test(headers.host ?? (httpVersionMinor > 0 ? '' : 'none'))) return 'host';
  if (count('content-type') > 1 || count('authorization') > 1) return 'repeatedField';
  return rawHeaders.length > 2 * FIELDS_MAX ? 'tooManyFields' : undefined;
}
