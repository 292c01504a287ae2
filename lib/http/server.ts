// Accepts connections, replaces the TLS material, and stops without losing a request that has arrived.
//
// node:https (or node:http, for the process endpoints) is the only server. Three of its listeners are taken off and
// called later: for TCP connections, to read the balancer's header and to limit handshakes; for TLS connections, to put
// the fast path in front of it; and for a connection's data, to pass it in slices.
//
// Invariant: the server closes a connection that owes an answer only after a deadline, after a change of trust, or
// because another connection needs the place or the memory. A client that got no answer may send its event again
// (openapi/rules.md, 5).
import { constants } from 'node:crypto';
import { once, type EventEmitter } from 'node:events';
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createHttpsServer, type Server as HttpsServer } from 'node:https';
import { Server as TcpServer, type AddressInfo, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { SecureContextOptions } from 'node:tls';
import type { ClockAndRandom } from '../process/clock.ts';
import { Arrivals } from './arrivals.ts';
import type { Connection, ServerHandlers, ServerLimits } from './connection.ts';
import { SLICE_COST } from './fast-path.ts';
import { faultOf, type NodePath } from './node-path.ts';
import { headTail } from './respond.ts';
import { Turns } from './turns.ts';

/** After a restart, more clients than node's default of 511 may reconnect at the same time. */
const BACKLOG = 4_096;
const NODE_CHECK_INTERVAL_MS = 1_000;
const REQUESTS_A_TURN = 192;

/**
 * Every TLS context needs these options, because `setSecureContext` forgets options that are not passed to it.
 * Renegotiation in TLS 1.2 would let a client change its certificate during a connection. All suites for TLS 1.2 have
 * forward secrecy and authenticated encryption (RFC 9325, section 4.2).
 */
const TLS_OPTIONS = {
  minVersion: 'TLSv1.2',
  secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
  ciphers: 'ECDHE+AESGCM+AES128:ECDHE+AESGCM:ECDHE+CHACHA20',
} as const;

export class HttpServer<T> {
  readonly #server: HttpsServer;
  readonly #arrivals: Arrivals<T>;
  readonly #system: ClockAndRandom;

  /** `tls` is `undefined` for plain HTTP. */
  constructor(
    tls: SecureContextOptions | undefined,
    limits: ServerLimits,
    handlers: ServerHandlers<T>,
    system: ClockAndRandom,
  ) {
    const { clock } = system;
    this.#system = system;
    const server = createServer(tls, limits);
    this.#server = server;
    const accept = takeListener<Socket>(server, 'connection');
    // Node's own listener for connections on which requests may arrive.
    const adopt = tls === undefined ? accept : takeListener<Socket>(server, 'secureConnection');
    const keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(limits.idleTimeoutMs / 1000)}`;
    const host = {
      clock,
      turns: new Turns(clock, () => REQUESTS_A_TURN, SLICE_COST),
      keepAliveTail: headTail(keepAlive),
      limits,
      handlers,
      hasFastPath: limits.httpReader === 'own',
      adopt: (socket: Socket) => {
        adopt(socket);
        return takeListener<Buffer>(socket, 'data');
      },
    };
    this.#arrivals = new Arrivals(host, tls && accept);
    server.on('connection', (tcp: Socket) => this.#arrivals.arrive(tcp));
    server.on('secureConnection', (socket) => this.#arrivals.secured(socket));
    server.on('tlsClientError', (error, socket) => this.#arrivals.notSecured(socket, error));

    const nodePathOf = (socket: Duplex): NodePath<T> | undefined => this.#arrivals.of(socket as Socket)?.node;
    // Without these listeners, node would answer on its own, without a problem body and without X-Request-Id.
    for (const event of ['request', 'checkContinue', 'checkExpectation'])
      server.on(event, (message: IncomingMessage, response: ServerResponse) =>
        nodePathOf(message.socket)?.requested(message, response, event === 'checkContinue'),
      );
    server.on('connect', (_message, socket) => nodePathOf(socket)?.faulty('connect'));
    server.on('clientError', (error, socket) => nodePathOf(socket)?.faulty(faultOf(error)));
    // Without this listener, node destroys connections that are idle between requests. `Connection.check` closes them.
    server.on('timeout', () => undefined);
  }

  /** The connections on which requests may arrive. */
  get connections(): Connection<T>[] {
    return this.#arrivals.all.filter(({ isOpen }) => isOpen);
  }

  /** With `reusePort`, several processes may share a port. Rejects with the system's error. */
  async listen(host: string, port: number, reusePort = false): Promise<AddressInfo> {
    this.#server.listen({ port, host, reusePort, backlog: BACKLOG });
    await once(this.#server, 'listening');
    return this.#server.address() as AddressInfo;
  }

  /**
   * Uses `tls` for new handshakes. Older sessions cannot be resumed: a ticket contains the verdict of the original
   * handshake, and a client that is no longer trusted could use it.
   */
  replaceTls(tls: SecureContextOptions): void {
    this.#server.setSecureContext({ ...tls, ...TLS_OPTIONS });
    this.#server.setTicketKeys(this.#system.random.bytes(48));
  }

  /** Stops listening, closes idle connections, and resolves when all connections are closed. */
  async drain(): Promise<void> {
    this.#arrivals.drainsSinceMs = this.#system.clock.ms();
    // The method of node:http would also destroy idle connections, even if a request is on its way.
    await new Promise<void>((resolve) => TcpServer.prototype.close.call(this.#server, () => resolve()));
  }

  destroy(): void {
    for (const { socket } of this.#arrivals.all) socket.destroy();
  }
}

function createServer(tls: SecureContextOptions | undefined, limits: ServerLimits): HttpsServer {
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
  // A client that has sent its request and ended its side still gets its answer (RFC 9112, section 9.6). Both servers
  // have the methods and events that are used here for requests.
  return Object.assign(server as HttpsServer, { httpAllowHalfOpen: true });
}

/** Takes node's only listener for an event off a server or socket, and returns it. */
export function takeListener<A>(from: EventEmitter, event: string): (argument: A) => void {
  const listeners = from.listeners(event);
  const [listener] = listeners;
  if (listener === undefined || listeners.length > 1)
    throw new Error(
      `node ${process.version} has ${listeners.length} listeners for '${event}' on a new server or connection, and ` +
        'this program needs exactly one: use a version of node that package.json allows',
    );
  from.removeAllListeners(event);
  return (argument) => void listener.call(from, argument);
}
