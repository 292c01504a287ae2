// Reads bytes with node:http, as the reference for where each request begins and ends.
import { createServer, METHODS, type IncomingMessage, type Server } from 'node:http';
import { duplexPair } from 'node:stream';
import { HEADER_BYTES_MAX } from '../../lib/gateway/config.ts';

export interface ReadRequest {
  readonly method: string;
  readonly target: string;
  readonly requestId: string | undefined;
  body: string | undefined;
}

export type NodeReading = readonly ReadRequest[];

const METHOD = /^[\w!#$%&'*+.^`|~-]{1,32}(?= )/;

export class NodeReader {
  readonly #server: Server;
  #requests: ReadRequest[] = [];
  #latest: IncomingMessage | undefined;
  /** The index of the byte that no known method has. */
  #unknownAt: number | undefined;

  constructor() {
    const read = (request: IncomingMessage): void => {
      const given = request.headersDistinct['x-request-id'];
      const one: ReadRequest = {
        method: request.method ?? '',
        target: request.url ?? '',
        requestId: given?.length === 1 ? given[0] : undefined,
        body: undefined,
      };
      this.#requests.push(one);
      this.#latest = request;
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => (one.body = Buffer.concat(chunks).toString('latin1')));
      request.on('error', () => undefined);
    };
    this.#server = createServer({ maxHeaderSize: HEADER_BYTES_MAX, requireHostHeader: false }, (request, response) => {
      read(request);
      request.on('end', () => response.end());
    });
    this.#server.maxHeadersCount = 0;
    for (const event of ['checkContinue', 'checkExpectation'] as const) {
      this.#server.on(event, (request: IncomingMessage, response) => {
        read(request);
        request.on('end', () => response.end());
      });
    }
    this.#server.on('connect', (_request, socket) => void socket.destroy());
    this.#server.on('clientError', (cause: NodeJS.ErrnoException & { bytesParsed?: number }, socket) => {
      if (cause.code === 'HPE_INVALID_METHOD') this.#unknownAt = cause.bytesParsed;
      // The streams of earlier requests must still end, so the socket is destroyed in the next turn.
      setImmediate(() => socket.destroy());
    });
  }

  /** The gateway refuses a method that node does not know with 405 and reads on, so node gets another one. */
  async read(bytes: Buffer): Promise<NodeReading> {
    let requests = await this.#readKnown(bytes);
    for (let text = bytes.toString('latin1'), at = this.#unknownAt; at !== undefined;) {
      const before = text.slice(0, at);
      const begun = METHODS.flatMap((method) => endsOf(before, method));
      at = undefined;
      for (const length of [...new Set(begun), 0].sort((a, b) => b - a)) {
        const start = before.length - length;
        const [method] = METHOD.exec(text.slice(start)) ?? [];
        if (method === undefined || METHODS.includes(method)) continue;
        const known = `${text.slice(0, start)}PATCH${text.slice(start + method.length)}`;
        const read = await this.#readKnown(Buffer.from(known, 'latin1'));
        // Otherwise these bytes are the end of a body.
        if (this.#unknownAt !== undefined && this.#unknownAt <= start + 'PATCH'.length) continue;
        [requests, text, at] = [read, known, this.#unknownAt];
        break;
      }
    }
    return requests;
  }

  async #readKnown(bytes: Buffer): Promise<NodeReading> {
    this.#requests = [];
    this.#unknownAt = undefined;
    this.#latest = undefined;
    const [client, server] = duplexPair();
    const closed = new Promise((resolve) => server.once('close', resolve));
    client.on('error', () => undefined).resume();
    Object.assign(this.#server, { httpAllowHalfOpen: true });
    this.#server.emit('connection', server);
    client.end(bytes);
    client.on('end', () => server.destroy());
    // node:http swallows an error in a body after `Upgrade` and waits for the rest, so the socket is destroyed.
    server.once('end', () => setImmediate(() => this.#latest?.complete === false && server.destroy()));
    await closed;
    client.destroy();
    return this.#requests;
  }
}

/** The lengths of beginnings of `method` with which `text` ends. */
const endsOf = (text: string, method: string): number[] =>
  Array.from(method, (_, at) => at + 1).filter((length) => text.endsWith(method.slice(0, length)));
