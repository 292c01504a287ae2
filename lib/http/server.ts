// An HTTPS server that answers everything it is asked, its own parser's errors included, and that can be stopped
// without losing a request whose bytes got in.
//
// States: listening → draining → closed. Invariants: responses leave in the order of the requests of a connection; every
// time-out and limit below is on; a connection is closed by us only when it owes no answer, or when its deadline came.
//
// A connection begins with a DirectReader, which takes plain requests, and goes to node:http with the first other one. Both
// give their requests to one handler. Relies on node:http for the framing of those (llhttp, strict), on
// `requireHostHeader: false` and the listeners here so that no answer is written by node itself (it would lack X-Request-Id).
import { createServer, type Server } from 'node:https';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { Server as TlsServer, type SecureContextOptions, type TLSSocket } from 'node:tls';
import { constants, randomBytes } from 'node:crypto';
import { Connection, connectionOf, linger } from './connection.ts';
import { DirectReader } from './direct-reader.ts';
import { faultOf, handshakeReason, isEndOfInput, type ProtocolFault } from './faults.ts';
import { NodeRequest } from './node-request.ts';
import { Outbox } from './outbox.ts';
import type { HttpRequest } from './request.ts';
import { whatIsOverdue, type Overdue, type TimeLimits } from './time-limits.ts';

/** All times in milliseconds. */
export interface ServerLimits extends TimeLimits {
  readonly handshakeTimeoutMs: number;
  readonly headerBytesMax: number;
  readonly connectionsMax: number;
}

export interface ServerHandlers<T> {
  request(connection: Connection<T>, request: HttpRequest): void;
  /** The head of a request could not be read: the whole response to write. */
  protocolFault(fault: ProtocolFault): string;
  /** `reason` is one of HANDSHAKE_FAILURES. */
  handshakeFailure(reason: string): void;
}

/**
 * What every TLS context of this server has, the first and each later one: `setSecureContext` forgets what it is not given.
 * Renegotiation (TLS 1.2; 1.3 has none) is off, because a client could change its certificate by it in the middle of a connection.
 */
const TLS_OPTIONS = { minVersion: 'TLSv1.2', secureOptions: constants.SSL_OP_NO_RENEGOTIATION } as const;

const CHECK_INTERVAL_MS = 250;
/** While stopping: how long a connection with nothing going on may still bring a request. */
const IDLE_GRACE_MS = 400;
const IDLE_CHECK_MS = 50;

export class HttpsServer<T> {
  readonly #server: Server;
  readonly #handlers: ServerHandlers<T>;
  readonly #limits: ServerLimits;
  readonly #outbox = new Outbox();
  readonly #keepAlive: string;
  /** Hands a connection to node:http. */
  readonly #toNode: (socket: TLSSocket) => void;
  #watch: NodeJS.Timeout | undefined;
  readonly #connections = new Set<Connection<T>>();
  readonly #sockets = new Set<Socket>();
  /** The remote ends whose handshake began under the trust that is in use now. */
  readonly #handshaking = new Set<string>();
  #draining = false;

  constructor(tls: SecureContextOptions, limits: ServerLimits, handlers: ServerHandlers<T>) {
    this.#handlers = handlers;
    this.#limits = limits;
    this.#keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(limits.idleTimeoutMs / 1000)}\r\n`;
    this.#server = createServer({
      ...tls,
      ...TLS_OPTIONS,
      // The certificate is asked for and judged by the application: a bad one gets an HTTP answer, no broken handshake.
      requestCert: true,
      rejectUnauthorized: false,
      allowHalfOpen: true,
      handshakeTimeout: limits.handshakeTimeoutMs,
      headersTimeout: limits.headersTimeoutMs,
      requestTimeout: limits.requestTimeoutMs,
      keepAliveTimeout: limits.idleTimeoutMs,
      maxHeaderSize: limits.headerBytesMax,
      connectionsCheckingInterval: CHECK_INTERVAL_MS,
      requireHostHeader: false,
      noDelay: true,
    });
    this.#server.maxConnections = limits.connectionsMax;
    this.#server.maxHeadersCount = 0; // Node would drop what is over without a word; headerBytesMax bounds it.
    // A client that has sent its request and ended its side still gets its answer (RFC 9112, section 9.6).
    Object.assign(this.#server, { httpAllowHalfOpen: true });
    // Fact: an https.Server is a tls.Server with one listener, node:http's, for connections whose handshake is done.
    // Choice: take it off and call it for the connections that node:http is to have.
    const toNode = this.#server.listeners('secureConnection');
    this.#server.removeAllListeners('secureConnection');
    this.#toNode = (socket) => {
      for (const listener of toNode) listener.call(this.#server, socket);
    };
    this.#listen();
  }

  get draining(): boolean {
    return this.#draining;
  }

  get connections(): Iterable<Connection<T>> {
    return this.#connections;
  }

  /** Binds; with `reusePort` beside others that do so too. Rejects with the system's error (EADDRINUSE, EACCES, ENOTFOUND …). */
  listen(host: string, port: number, reusePort = false): Promise<AddressInfo> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen({ port, host, reusePort }, () => {
        this.#server.off('error', reject);
        this.#watch = setInterval(() => this.#closeOverdue(), CHECK_INTERVAL_MS);
        resolve(this.#server.address() as AddressInfo);
      });
    });
  }

  /**
   * New handshakes use `tls` from now on. Sessions that were granted before cannot be resumed: a ticket carries the
   * verdict of its first handshake, and who lost our trust must not come back by it. `trustChanged`: what was found
   * of clients until now does not count any more, in handshakes that are under way neither.
   */
  replaceTls(tls: SecureContextOptions, trustChanged: boolean): void {
    if (trustChanged) {
      this.#handshaking.clear();
      for (const connection of this.#connections) connection.current = false;
    }
    this.#server.setSecureContext({ ...tls, ...TLS_OPTIONS });
    this.#server.setTicketKeys(randomBytes(48));
  }

  /**
   * Stops listening, lets every exchange end (the application says `Connection: close` from now on), closes connections
   * that bring nothing for a moment, and resolves when none is left.
   */
  async drain(): Promise<void> {
    this.#draining = true;
    const closed = new Promise<void>((resolve) => this.#server.once('close', resolve));
    // Fact: https.Server's own close() first destroys idle connections, also those whose request has arrived and was
    // not read yet. Choice: only stop listening, and close them below once they were seen idle after a look.
    TlsServer.prototype.close.call(this.#server);
    const timer = setInterval(() => this.#closeIdle(), IDLE_CHECK_MS);
    await closed;
    clearInterval(timer);
    clearInterval(this.#watch);
  }

  /** Ends what is left, at once. */
  destroy(): void {
    for (const connection of this.#connections) connection.socket.destroy();
    for (const socket of this.#sockets) socket.destroy();
    this.#server.closeAllConnections();
  }

  #listen(): void {
    const server = this.#server;
    server.on('connection', (socket: Socket) => {
      const end = remoteEnd(socket);
      this.#sockets.add(socket);
      this.#handshaking.add(end);
      socket.once('close', () => {
        this.#sockets.delete(socket);
        this.#handshaking.delete(end);
      });
    });
    server.on('secureConnection', (socket: TLSSocket) => {
      const connection = new Connection<T>(socket);
      connection.current = this.#handshaking.delete(remoteEnd(socket));
      this.#connections.add(connection);
      socket.once('close', () => this.#connections.delete(connection));
      this.#readDirectly(connection);
    });
    server.on('request', (request, response) => this.#request(request, response, false));
    server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) =>
      this.#request(request, response, true),
    );
    server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) =>
      this.#request(request, response, false),
    );
    server.on('connect', (_request: IncomingMessage, socket: Socket) => {
      const connection = connectionOf<T>(socket);
      if (connection !== undefined) this.#answerRaw(connection, 'connect');
    });
    server.on('clientError', (error: NodeJS.ErrnoException, socket) => this.#clientError(error, socket as TLSSocket));
    server.on('tlsClientError', (error: NodeJS.ErrnoException, socket) => {
      this.#handlers.handshakeFailure(handshakeReason(error));
      socket.destroy();
    });
    server.on('drop', () => this.#handlers.handshakeFailure('limit'));
  }

  #request(request: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void {
    const connection = connectionOf<T>(request.socket);
    if (connection === undefined) return;
    connection.request = request;
    connection.response = response;
    connection.idleSinceMs = undefined;
    // The answer that closes must be the last one's, and which one that is shows when all that had come was read.
    const serve = (): void =>
      this.#handlers.request(connection, new NodeRequest(connection, request, response, expectsContinue));
    if (connection.fed === undefined) serve();
    else connection.fed.push(serve);
  }

  #readDirectly(connection: Connection<T>): void {
    const { socket } = connection;
    connection.direct = new DirectReader({
      socket,
      outbox: this.#outbox,
      keepAlive: this.#keepAlive,
      request: (request) => {
        connection.idleSinceMs = undefined;
        this.#handlers.request(connection, request);
      },
      cutOff: () => this.#answerRaw(connection, 'malformed'),
      left: (rest, ended) => {
        connection.direct = undefined;
        this.#toNode(socket);
        // What was read already goes to the parser as if it came now.
        connection.fed = [];
        if (rest.length > 0) socket.emit('data', rest);
        serveFed(connection);
        if (ended) socket.emit('end');
        else socket.resume();
      },
    });
  }

  #closeOverdue(): void {
    const now = performance.now();
    for (const connection of this.#connections) {
      const what = whatIsOverdue(connection, now, this.#limits);
      if (what !== undefined) this.#overdue(connection, what);
    }
  }

  #overdue(connection: Connection<T>, what: Overdue): void {
    const { socket, direct } = connection;
    direct?.stopReading();
    if (what === 'next request') {
      if (socket.writableLength > 0)
        socket.destroy(); // It does not read its answers.
      else socket.destroySoon();
      return;
    }
    if (what === 'head') {
      this.#answerRaw(connection, 'timeout');
    } else {
      connection.broken = true;
      if (connection.exchange?.bodyFault('timeout') !== true) socket.destroy();
    }
  }

  #clientError(error: NodeJS.ErrnoException, socket: TLSSocket): void {
    const connection = connectionOf<T>(socket);
    if (connection === undefined || !socket.writable || error.code === 'ECONNRESET' || error.code === 'EPIPE') {
      socket.destroy();
      return;
    }
    if (connection.broken) return;
    serveFed(connection);
    connection.broken = true;
    const fault = faultOf(error);
    const latest = connection.request;
    if (latest === undefined || latest.complete) this.#answerRaw(connection, fault);
    else if (!connection.busy || isEndOfInput(error))
      socket.destroy(); // Answered already, or nobody to answer.
    else if (connection.exchange?.bodyFault(fault) !== true) {
      // Answered, but the answer still waits to be read: nothing more is read from here, so the connection ends behind it.
      connection.response?.once('close', () => linger(socket));
    }
  }

  /** Answers what has no response object, after the answers that are owed before it. */
  #answerRaw(connection: Connection<T>, fault: ProtocolFault): void {
    serveFed(connection);
    connection.broken = true;
    const write = (): void => {
      if (!connection.socket.writable) return;
      connection.socket.write(this.#handlers.protocolFault(fault));
      linger(connection.socket);
    };
    if (connection.direct === undefined && connection.busy) connection.response?.once('close', write);
    else write(); // Behind what was written before.
  }

  #closeIdle(): void {
    const now = performance.now();
    for (const connection of this.#connections) {
      if (connection.busy) continue;
      connection.idleSinceMs ??= now;
      if (now - connection.idleSinceMs < IDLE_GRACE_MS) continue;
      // A look at what has arrived comes between this timer and the check phase.
      setImmediate(() => {
        if (connection.idleSinceMs === undefined || connection.busy) return;
        connection.direct?.stopReading();
        connection.socket.destroySoon();
      });
    }
  }
}

function serveFed(connection: Connection<unknown>): void {
  const { fed } = connection;
  connection.fed = undefined;
  for (const serve of fed ?? []) serve();
}

const remoteEnd = (socket: Socket): string => `${socket.remoteAddress} ${socket.remotePort}`;
