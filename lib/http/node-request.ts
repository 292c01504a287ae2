// A request that node:http read.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { abandonBody, readBody } from './body.ts';
import type { Connection } from './connection.ts';
import type { BodySink, HttpRequest } from './request.ts';
import { respondWith } from './respond.ts';

export class NodeRequest implements HttpRequest {
  readonly expectsContinue: boolean;
  readonly #connection: Connection<unknown>;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;

  constructor(
    connection: Connection<unknown>,
    request: IncomingMessage,
    response: ServerResponse,
    expectsContinue: boolean,
  ) {
    this.#connection = connection;
    this.#request = request;
    this.#response = response;
    this.expectsContinue = expectsContinue;
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

  get givenRequestId(): string | undefined {
    const given = this.#request.headers['x-request-id'];
    return typeof given === 'string' ? given : undefined;
  }

  get complete(): boolean {
    return this.#request.complete;
  }

  get latest(): boolean {
    return this.#connection.response === this.#response;
  }

  get gone(): boolean {
    return this.#request.destroyed;
  }

  bodyMayExceed(bytes: number): boolean {
    const length = this.contentLength;
    return length === undefined ? this.#request.headers['transfer-encoding'] !== undefined : length > bytes;
  }

  continue(): void {
    if (this.expectsContinue) this.#response.writeContinue();
  }

  readBody(bytesMax: number, sink: BodySink): void {
    readBody(this.#request, bytesMax, sink);
  }

  abandonBody(): void {
    abandonBody(this.#request);
  }

  respond(
    requestId: string,
    status: number,
    contentType: string,
    body: string,
    close: boolean,
    extra?: readonly string[],
  ): boolean {
    return respondWith(this.#response, requestId, status, contentType, body, close, extra);
  }
}
