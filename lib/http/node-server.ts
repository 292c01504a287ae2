// The server of node:https, or of node:http for the process endpoints. This file has every use of behavior that node's
// documentation does not promise. `assertBehavior` checks it at start.
import assert from 'node:assert/strict';
import { constants } from 'node:crypto';
import { once, type EventEmitter } from 'node:events';
import { createServer as createHttpServer, type ServerResponse } from 'node:http';
import { createServer as createHttpsServer, type Server as HttpsServer } from 'node:https';
import { Server as TcpServer, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import type { SecureContextOptions, TLSSocket } from 'node:tls';
import type { ServerLimits } from './connection.ts';

const NODE_CHECK_INTERVAL_MS = 1_000;

/**
 * Every TLS context needs these options, because `setSecureContext` forgets the others. Renegotiation would let a
 * client change its certificate. All suites have forward secrecy and authenticated encryption (RFC 9325, section 4.2).
 */
export const TLS_OPTIONS = {
  minVersion: 'TLSv1.2',
  secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
  ciphers: 'ECDHE+AESGCM+AES128:ECDHE+AESGCM:ECDHE+CHACHA20',
} as const;

export interface HandshakeEnd {
  readonly secured: (socket: TLSSocket) => void;
  readonly failed: (error: NodeJS.ErrnoException, socket: TLSSocket) => void;
}

type Limits = Omit<ServerLimits, 'held' | 'proxyFrom'>;

export function createServer(tls: SecureContextOptions | undefined, limits: Limits): HttpsServer {
  const options = {
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.idleTimeoutMs,
    connectionsCheckingInterval: NODE_CHECK_INTERVAL_MS,
    maxHeaderSize: limits.headerBytesMax,
    requireHostHeader: false,
    noDelay: true,
    // The application checks the certificate: a client with a bad one gets an HTTP answer.
    requestCert: true,
    rejectUnauthorized: false,
    handshakeTimeout: limits.handshakeTimeoutMs,
  };
  const server =
    tls === undefined ? createHttpServer(options) : createHttpsServer({ ...options, ...tls, ...TLS_OPTIONS });
  server.maxHeadersCount = 0; // A limit would drop fields silently; node-request.ts refuses them.
  // A client that has sent its request and ended its side still gets its answer (RFC 9112, section 9.6).
  return Object.assign(server as HttpsServer, { httpAllowHalfOpen: true });
}

/** Takes node's only listener for an event off a server or socket, and returns it. */
export function takeListener<A>(from: EventEmitter, event: string): (this: unknown, argument: A) => void {
  const [listener, ...others] = from.listeners(event);
  assert(
    listener !== undefined && others.length === 0,
    differs(`${from.listenerCount(event)} listeners for '${event}'`),
  );
  from.removeAllListeners(event);
  return listener as (this: unknown, argument: A) => void;
}

/** Returns a function that begins a handshake. A server of its own, which only reports, tells whose end it was. */
export function takeHandshakes(server: HttpsServer): (tcp: Duplex, end: HandshakeEnd) => void {
  const begin = takeListener<Duplex>(server, 'connection');
  return (tcp, { secured, failed }) => {
    const emit = (event: string, ...[first, second]: unknown[]): boolean => {
      if (event === 'secureConnection') secured(first as TLSSocket);
      else if (event === 'tlsClientError') failed(first as NodeJS.ErrnoException, second as TLSSocket);
      else server.emit(event, first, second);
      return true;
    };
    begin.call(Object.create(server, { emit: { value: emit } }), tcp);
  };
}

/** The method of node:http would also destroy idle connections, even if a request is on its way. */
export function stopListening(server: HttpsServer): Promise<void> {
  return new Promise((resolve) => TcpServer.prototype.close.call(server, () => resolve()));
}

/** Calls `finish` when node has written its last answer. Node would reset a client that is still sending. */
export function finishWith(socket: Duplex, finish: () => void): void {
  (socket as Socket).destroySoon = finish;
}

/** Node's listener missed the end of the input, because it got the connection later. */
export function repeatEnd(socket: Duplex): void {
  socket.emit('end');
}

const differs = (what: string): string =>
  `node ${process.version} has ${what}, and this program needs another behavior: use a version of node that ` +
  'package.json allows';

/** Rejects if this version of node does not behave as this file needs. */
export async function assertBehavior(): Promise<void> {
  const [http, https] = [createHttpServer(), createHttpsServer()];
  const events: string[] = [];
  const socket = (): Duplex => new Duplex({ read: () => undefined, write: (_bytes, _encoding, done) => done() });
  const acceptHttp = takeListener<Duplex>(http, 'connection');
  const received = (text: string): Duplex => {
    const client = socket();
    acceptHttp.call(http, client);
    takeListener<Buffer>(client, 'data').call(client, Buffer.from(text));
    return client;
  };
  http.on('clientError', () => events.push('end'));
  repeatEnd(received('GET / HTTP/1.1\r\n'));
  const request = once(http, 'request') as Promise<[unknown, ServerResponse]>;
  finishWith(received('GET / HTTP/1.0\r\n\r\n'), () => events.push('finish'));
  const [, response] = await request;
  await once(response.end(), 'close');
  const client = socket();
  const reported = once(https, 'tlsClientError').then(() => events.push('handshake of the server'));
  const failed = new Promise<void>((resolve) => {
    takeHandshakes(https)(client, { secured: () => resolve(), failed: () => (events.push('handshake'), resolve()) });
  });
  client.destroy();
  await Promise.race([reported, failed]);
  if (http instanceof TcpServer && http.close !== TcpServer.prototype.close) events.push('close');
  assert.deepEqual(events, ['end', 'finish', 'handshake', 'close'], differs(`the behavior ${events.join()}`));
}
