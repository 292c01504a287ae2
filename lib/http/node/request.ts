// A request that node:http read.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { assert } from '../assert.ts';
import { expectedAnswerBytes } from '../limits.ts';
import type { HeaderField, HttpRequest, ProtocolFault, RequestDefect, RequestListener } from '../request.ts';
import { bytesOf, respond, type Answer } from '../respond.ts';
import { abandonBody, readBody } from './body.ts';

/** The connection that the request came by, as far as the request knows it. */
export interface NodeRequestOwner {
  isLatest(request: NodeRequest): boolean;
  /** `bytesExpected` were owed until now, `request.bytesOwed` are from now on. */
  answered(request: NodeRequest, bytesExpected: number, close: boolean): void;
}

export class NodeRequest implements HttpRequest {
  readonly expectsContinue: boolean;
  readonly defect: RequestDefect | undefined;
  /** Nothing behind it is a request: the connection ends behind its answer. */
  readonly isLast: boolean;
  /** When its head had come, by `Clock.ms()`. */
  readonly startMs: number;
  readonly #owner: NodeRequestOwner;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  #listener: RequestListener | undefined;
  #bytesOwed = 0;
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
    this.defect = defectOf(request);
    // What follows an Upgrade may be another protocol (RFC 9110, section 7.8); HTTP/1.0 knows no Transfer-Encoding, so
    // that somebody on the way may have seen another end (RFC 9112, section 6.1).
    const { headers, httpVersionMinor } = request;
    const oddEnd = httpVersionMinor === 0 && headers['transfer-encoding'] !== undefined;
    this.isLast = this.defect !== undefined || headers.upgrade !== undefined || oddEnd;
  }

  get method(): string {
    return this.#request.method ?? '';
  }

  get target(): string {
    return this.#request.url ?? '';
  }

  get fieldCount(): number {
    return this.#request.rawHeaders.length / 2;
  }

  get contentType(): string | undefined {
    return this.#request.headers['content-type'];
  }

  get contentEncoding(): string | undefined {
    return this.#request.headers['content-encoding'];
  }

  get contentLength(): number | undefined {
    const length = this.#request.headers['content-length'];
    return length === undefined ? undefined : Number(length);
  }

  get authorization(): string | undefined {
    return this.#request.headers.authorization;
  }

  get accept(): string | undefined {
    return this.method === 'POST' ? undefined : this.#request.headers.accept;
  }

  get cloudEventFields(): readonly HeaderField[] | undefined {
    const { rawHeaders } = this.#request;
    let fields: HeaderField[] | undefined;
    for (let at = 0; at < rawHeaders.length; at += 2) {
      const name = rawHeaders[at]?.toLowerCase() ?? '';
      if (name.startsWith('ce-')) (fields ??= []).push([name, rawHeaders[at + 1] ?? '']);
    }
    return fields;
  }

  get traceparent(): string | undefined {
    return this.#request.headers['traceparent'] as string | undefined;
  }

  get tracestate(): string | undefined {
    return this.#request.headers['tracestate'] as string | undefined;
  }

  get givenRequestId(): string | undefined {
    const given = this.#request.headers['x-request-id'];
    return typeof given === 'string' ? given : undefined;
  }

  get complete(): boolean {
    return this.#request.complete;
  }

  get answered(): boolean {
    return this.#response.headersSent;
  }

  get latest(): boolean {
    return this.#owner.isLatest(this);
  }

  get gone(): boolean {
    return this.#request.destroyed;
  }

  /** About how long its answer is; before there is one, what is expected; 0 before `start`. */
  get bytesOwed(): number {
    return this.#bytesOwed;
  }

  /** From now on it counts. Gives how many bytes of an answer are to be expected. */
  start(): number {
    assert(this.#bytesOwed === 0, 'a request starts once');
    this.#bytesOwed = expectedAnswerBytes(this.method);
    return this.#bytesOwed;
  }

  listen(listener: RequestListener): void {
    assert(this.#listener === undefined, 'a request has one listener');
    this.#listener = listener;
  }

  bodyMayExceed(bytes: number): boolean {
    const length = this.contentLength;
    return length === undefined ? this.#request.headers['transfer-encoding'] !== undefined : length > bytes;
  }

  continue(): void {
    if (!this.expectsContinue) return;
    this.#continued = true;
    this.#response.writeContinue();
  }

  readBody(bytesMax: number): undefined {
    if (this.#listener !== undefined) readBody(this.#request, bytesMax, this.#listener);
  }

  abandonBody(): void {
    abandonBody(this.#request);
  }

  /** The rest of it cannot be read. False where it was answered before. */
  fault(fault: ProtocolFault): boolean {
    return this.#listener?.fault(fault) ?? false;
  }

  respond(requestId: string, answer: Answer, close: boolean): boolean {
    // node:http itself closes behind an answer to a client that was not told to go on: whether its body follows is
    // open.
    const last = close || this.isLast || (this.expectsContinue && !this.#continued);
    if (!respond(this.#response, requestId, answer, last)) return false;
    const expected = this.#bytesOwed;
    this.#bytesOwed = bytesOf(answer.body);
    this.#owner.answered(this, expected, last);
    return true;
  }
}

/** A registered name, an IPv4 address or an IPv6 address in brackets, and perhaps a port (RFC 9112, section 3.2). */
const HOST = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=%-]+)(?::\d{0,5})?$/;

/** Why it must not be handled; undefined where it may be. */
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
