// Serves a queue port to gateways in RESP, plain or over mutual TLS: what a StreamQueue with the dispatcher's dialect
// talks to.
//
// Invariant: over TLS a peer is admitted only where `tls.refusal` says nothing against it, asked at its handshake and
// again for everyone whenever the trust changes. A session cannot be resumed, so each connection shows its certificate
// anew.
//
// Limits: CONNECTIONS_MAX peers; of commands that are not whole yet, COMMAND_BYTES_MAX for each peer and
// RECEIVED_BYTES_MAX for all.
//
// It does not bound what is in flight; the queue does.
import { constants } from 'node:crypto';
import { createServer as createTcpServer, type AddressInfo, type Server, type Socket } from 'node:net';
import {
  createServer as createTlsServer,
  type SecureContextOptions,
  type Server as TlsServer,
  type TLSSocket,
} from 'node:tls';
import { Throttled, type Log } from '../process/log.ts';
import { QueuePeer, type Grant, type PeerHost } from './queue-peer.ts';

const CONNECTIONS_MAX = 256;
const RECEIVED_BYTES_MAX = 256 << 20;
const HANDSHAKE_TIMEOUT_MS = 5_000;
const KEEP_ALIVE_MS = 5_000;
const FAULT_LOG_INTERVAL_MS = 10_000;

/** Renegotiation is refused, and nothing is resumed: a ticket would carry the verdict of an older handshake. */
const TLS_OPTIONS: SecureContextOptions = {
  minVersion: 'TLSv1.2',
  secureOptions: constants.SSL_OP_NO_RENEGOTIATION | constants.SSL_OP_NO_TICKET,
};

export interface QueueServerTls {
  readonly context: SecureContextOptions;
  /** Why the peer behind this connection is not admitted, for its eyes too; undefined for one that is. */
  readonly refusal: (socket: TLSSocket) => string | undefined;
}

export interface QueueServerOptions extends Pick<PeerHost, 'authenticate'> {
  readonly anonymous: Grant;
  /** Undefined: plain, for loopback and private networks. */
  readonly tls: QueueServerTls | undefined;
  readonly log: Log;
}

export class QueueServer {
  readonly #options: QueueServerOptions;
  readonly #server: Server | TlsServer;
  readonly #host: PeerHost;
  readonly #peers = new Map<QueuePeer, Socket>();
  readonly #faultLog = new Throttled(FAULT_LOG_INTERVAL_MS);
  #received = 0;

  constructor(options: QueueServerOptions) {
    this.#options = options;
    this.#host = {
      anonymous: options.anonymous,
      authenticate: options.authenticate,
      holds: (change) => {
        this.#received += change;
        return this.#received <= RECEIVED_BYTES_MAX;
      },
      closed: (peer) => this.#peers.delete(peer),
      fault: (cause) => this.#fault(cause),
    };
    this.#server = options.tls === undefined ? this.#plain() : this.#secure(options.tls);
    this.#server.maxConnections = CONNECTIONS_MAX;
  }

  get connections(): number {
    return this.#peers.size;
  }

  /** Binds. Rejects with the system's error. */
  listen(host: string, port: number): Promise<AddressInfo> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, host, () => {
        this.#server.off('error', reject);
        resolve(this.#server.address() as AddressInfo);
      });
    });
  }

  /** New handshakes use `context` from now on; peers that are not admitted any more are closed. Gives how many. */
  replaceTls(context: SecureContextOptions): number {
    (this.#server as TlsServer).setSecureContext({ ...context, ...TLS_OPTIONS });
    let closed = 0;
    for (const [peer, socket] of this.#peers) {
      if (this.#options.tls?.refusal(socket as TLSSocket) === undefined) continue;
      peer.destroy();
      closed += 1;
    }
    return closed;
  }

  /** Stops listening, answers what has come, and resolves when no connection is left. */
  drain(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve());
      for (const peer of this.#peers.keys()) peer.end();
    });
  }

  #plain(): Server {
    return createTcpServer({ noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS }, (socket) =>
      this.#admit(socket, undefined),
    );
  }

  #secure({ context, refusal }: QueueServerTls): TlsServer {
    // A peer that is not admitted is told why, instead of a broken handshake.
    const trust = { requestCert: true, rejectUnauthorized: false };
    const limits = { handshakeTimeout: HANDSHAKE_TIMEOUT_MS, noDelay: true, keepAlive: true };
    const server = createTlsServer({ ...context, ...TLS_OPTIONS, ...trust, ...limits }, (socket) =>
      this.#admit(socket, refusal(socket)),
    );
    server.on('tlsClientError', (cause) => this.#fault(cause));
    return server;
  }

  #admit(socket: Socket, refusal: string | undefined): void {
    if (refusal !== undefined) this.#fault(new Error(refusal));
    this.#peers.set(new QueuePeer(socket, this.#host, refusal), socket);
  }

  #fault(cause: unknown): void {
    const reason = cause instanceof Error ? cause.message : 'unknown error';
    this.#faultLog.line((heldBack) =>
      this.#options.log.warn({ reason, heldBack }, "a gateway's connection was refused or broke"),
    );
  }
}
