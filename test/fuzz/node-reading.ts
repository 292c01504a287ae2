// Reads bytes with node:http, as the reference for where each request begins and ends.
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { duplexPair } from 'node:stream';
import { HEADER_BYTES_MAX } from '../../lib/gateway/config.ts';

export interface ReadRequest {
  readonly method: string;
  readonly target: string;
  readonly requestId: string | undefined;
  body: string | undefined;
}

export type NodeReading = readonly ReadRequest[];

export class NodeReader {
  readonly #server: Server;
  #requests: ReadRequest[] = [];
  #latest: IncomingMessage | undefined;

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
    this.#server.on('clientError', (_cause, socket) => {
      // The streams of earlier requests must still end, so the socket is destroyed in the next turn.
      setImmediate(() => socket.destroy());
    });
  }

  async read(bytes: Buffer): Promise<NodeReading> {
    this.#requests = [];
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
