// What the server knows of one TLS connection, and how a connection ends.
import type { X509Certificate } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TLSSocket } from 'node:tls';
import type { DirectReader } from './direct-reader.ts';
import type { ProtocolFault } from './faults.ts';

/** How long a connection that we close is still read from, so that the client gets to see our last answer. */
const LINGER_MS = 1_000;
/** How long the client may take before that to take the answers that were written. */
const LAST_WRITE_MS = 10_000;

const CONNECTION = Symbol('connection');

/** The client's certificate in the handshake that opened a connection. */
export interface ClientCertificate {
  readonly certificate: X509Certificate;
  /** Why OpenSSL did not accept it; undefined where it did. */
  readonly fault: string | undefined;
}

/**
 * An exchange whose request is still arriving. `bodyFault`: the rest of it cannot be read; answer and close. False when
 * it was answered before.
 */
export interface OpenExchange {
  bodyFault(fault: ProtocolFault): boolean;
}

/** Per-connection state. `owner` and `exchange` are the application's to set. */
export class Connection<T> {
  readonly socket: TLSSocket;
  /**
   * Taken once. The socket's own `getPeerX509Certificate()` gives the certificate of the latest handshake and `authorized` the
   * verdict on the first one, so they must not be asked later. Undefined where the client sent none.
   */
  readonly clientCertificate: ClientCertificate | undefined;
  /** Who is at the other end, as far as that is known. */
  owner: T | undefined;
  /** The latest exchange, for as long as its request may still be arriving. */
  exchange: OpenExchange | undefined;
  /** Reads and answers plain requests here; undefined once the connection is node:http's. */
  direct: DirectReader | undefined;
  /** Since then: the latest exchange. Responses leave in order, so when this one has left, all have. */
  request: IncomingMessage | undefined;
  response: ServerResponse | undefined;
  /** The parser gave up; nothing more is read from here. */
  broken = false;
  /** Its handshake judged the client by the trust that is in use now. */
  current = false;
  /** When a stopping server first saw nothing going on here. */
  idleSinceMs: number | undefined;
  /** While node:http is given what had come before it got the connection: the requests that it found there, to be served. */
  fed: (() => void)[] | undefined;
  /** When a look at this connection first found as many direct requests and unread bytes as it has now, and how many those were. */
  quietSinceMs = performance.now();
  quietRequests = 0;
  quietUnread = 0;

  constructor(socket: TLSSocket) {
    this.socket = socket;
    this.clientCertificate = clientCertificateOf(socket);
    (socket as unknown as Record<symbol, unknown>)[CONNECTION] = this;
  }

  /** True while an answer is owed or on its way. */
  get busy(): boolean {
    if (this.direct !== undefined) return this.direct.busy;
    return this.response !== undefined && !this.response.writableFinished && !this.response.destroyed;
  }
}

function clientCertificateOf(socket: TLSSocket): ClientCertificate | undefined {
  const certificate = socket.getPeerX509Certificate();
  if (certificate === undefined) return undefined;
  if (socket.authorized) return { certificate, fault: undefined };
  const error: unknown = socket.authorizationError;
  return { certificate, fault: error instanceof Error ? error.message : String(error) };
}

/** The connection that a request came by. */
export function connectionOf<T>(socket: unknown): Connection<T> | undefined {
  return (socket as Record<symbol, Connection<T> | undefined>)[CONNECTION];
}

/**
 * Makes the end of this connection a lingering one. Without it, closing while the client still sends resets the
 * connection, and a reset can overtake the answer (RFC 9112, section 9.6).
 */
export function lingerAtEnd(socket: TLSSocket): void {
  socket.destroySoon = () => linger(socket);
}

/** Ends our side, throws away what still comes, and lets go when the client has ended too or a second after our last byte. */
export function linger(socket: TLSSocket): void {
  if (socket.destroyed) return;
  let timer = setTimeout(() => socket.destroy(), LAST_WRITE_MS);
  socket.once('close', () => clearTimeout(timer));
  let finished = false;
  let ended = socket.readableEnded;
  const done = (): void => {
    if (finished && ended) socket.destroy();
  };
  socket.once('end', () => {
    ended = true;
    done();
  });
  socket.end(() => {
    finished = true;
    clearTimeout(timer);
    timer = setTimeout(() => socket.destroy(), LINGER_MS);
    done();
  });
  socket.resume();
}
