// Serves a queue port to gateways in RESP, plain or over mutual TLS: what a StreamQueue with the dispatcher's dialect
// talks to.
//
// Invariants: over TLS a peer is admitted only where `tls.refusal` says nothing against it, asked at its handshake and
// again for everyone whenever the trust changes; of a peer that is not admitted no command is read. A session cannot be
// resumed, so each connection shows its certificate anew. Admitted gateways can always connect: connections without a
// command give way (lib/http/connection-room.ts).
//
// Limits: CONNECTIONS_MAX; HANDSHAKE_TIMEOUT_MS; of commands that are not whole yet, those of command-reader.ts for
// each peer and RECEIVED_BYTES_MAX for all. Over it, the client that holds most loses the connection that holds most.
//
// It does not bound what is in flight; the queue does.
import { constants } from 'node:crypto';
import { once } from 'node:events';
import { createServer as createTcpServer, type AddressInfo, type Server, type Socket } from 'node:net';
import {
  createServer as createTlsServer,
  type SecureContextOptions,
  type Server as TlsServer,
  type TLSSocket,
} from 'node:tls';
import { ConnectionRoom } from '../http/connection-room.ts';
import { linger } from '../http/linger.ts';
import { socketBelow, TLS_OPTIONS } from '../http/tls-options.ts';
import type { Timer } from '../process/clock.ts';
import { Throttled, type Log } from '../process/log.ts';
import { messageOf } from '../process/message-of.ts';
import { error, QueuePeer, type Grant, type PeerHost } from './queue-peer.ts';

const CONNECTIONS_MAX = 256;
const RECEIVED_BYTES_MAX = 256 << 20;
const HANDSHAKE_TIMEOUT_MS = 5_000;
const KEEP_ALIVE_MS = 5_000;
const CHECK_INTERVAL_MS = 250;
const FAULT_LOG_INTERVAL_MS = 10_000;

/** Nothing is resumed: a ticket would carry the verdict of an older handshake. */
const SECURE_OPTIONS = { ...TLS_OPTIONS, secureOptions: TLS_OPTIONS.secureOptions | constants.SSL_OP_NO_TICKET };

interface QueueServerTls {
  readonly context: SecureContextOptions;
  /** Why the peer behind this connection is not admitted, for its eyes too; undefined for one that is. */
  readonly refusal: (socket: TLSSocket) => string | undefined;
}

export interface QueueServerOptions extends Pick<PeerHost, 'authenticate' | 'clock'> {
  readonly anonymous: Grant;
  /** Undefined: plain, for loopback. */
  readonly tls: QueueServerTls | undefined;
  readonly log: Log;
  readonly connectionsMax?: number;
  readonly receivedBytesMax?: number;
  readonly handshakeTimeoutMs?: number;
}

export class QueueServer {
  readonly #options: QueueServerOptions;
  readonly #server: Server | TlsServer;
  readonly #host: PeerHost;
  readonly #room: ConnectionRoom<Socket>;
  /** Every TCP connection. */
  readonly #sockets = new Set<Socket>();
  readonly #peers = new Set<QueuePeer>();
  readonly #faultLog: Throttled;
  readonly #receivedBytesMax: number;
  #received = 0;
  #watch: Timer | undefined;

  constructor(options: QueueServerOptions) {
    const { anonymous, authenticate, clock, connectionsMax = CONNECTIONS_MAX } = options;
    this.#options = options;
    this.#faultLog = new Throttled(clock, FAULT_LOG_INTERVAL_MS);
    this.#receivedBytesMax = options.receivedBytesMax ?? RECEIVED_BYTES_MAX;
    this.#host = {
      anonymous,
      authenticate,
      clock,
      holds: (peer, bytes) => this.#holds(peer, bytes),
      known: (peer) => {
        const below = this.#below(peer.socket);
        const goes = this.#room.know(below, peer.client);
        if (goes !== undefined && goes !== below) this.#makeGo(goes);
      },
      closed: (peer) => this.#peers.delete(peer),
      fault: (cause) => this.#fault(cause),
    };
    const limits = { connectionsMax, connectionsPerAddressMax: Math.ceil(connectionsMax / 4) };
    // Of the client that holds most the oldest connection goes, busy or not.
    this.#room = new ConnectionRoom(
      limits,
      ({ bytesWritten }) => bytesWritten > 0,
      () => true,
    );
    this.#server = options.tls === undefined ? this.#plain() : this.#secure(options.tls);
  }

  get connections(): number {
    return this.#peers.size;
  }

  /** Binds. Rejects with the system's error. */
  async listen(host: string, port: number): Promise<AddressInfo> {
    await once(this.#server.listen(port, host), 'listening');
    this.#watch = this.#options.clock.every(CHECK_INTERVAL_MS, () => this.#check());
    return this.#server.address() as AddressInfo;
  }

  /** New handshakes use `context` from now on; peers that are not admitted any more are closed. Gives how many. */
  replaceTls(context: SecureContextOptions): number {
    (this.#server as TlsServer).setSecureContext({ ...context, ...SECURE_OPTIONS });
    let closed = 0;
    for (const peer of this.#peers) {
      if (this.#options.tls?.refusal(peer.socket as TLSSocket) === undefined) continue;
      peer.destroy();
      closed += 1;
    }
    return closed;
  }

  /** Stops listening, answers what was taken, and resolves when no connection is left. */
  async drain(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    const peers = [...this.#peers];
    const answered = new Set(peers.map(({ socket }) => this.#below(socket)));
    for (const peer of peers) peer.end();
    for (const socket of this.#sockets) if (!answered.has(socket)) socket.destroy();
    await closed;
    this.#watch?.close();
  }

  #plain(): Server {
    const server = createTcpServer({ noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS });
    return server.on('connection', (socket: Socket) => {
      if (this.#enter(socket)) this.#take(socket, socket.remoteAddress ?? '');
    });
  }

  #secure({ context, refusal }: QueueServerTls): TlsServer {
    // A peer that is not admitted gets the reason, instead of a broken handshake.
    const trust = { requestCert: true, rejectUnauthorized: false };
    const handshakeTimeout = this.#options.handshakeTimeoutMs ?? HANDSHAKE_TIMEOUT_MS;
    const limits = { handshakeTimeout, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS };
    const server = createTlsServer({ ...context, ...SECURE_OPTIONS, ...trust, ...limits });
    server.on('connection', (socket: Socket) => void this.#enter(socket));
    server.on('secureConnection', (socket: TLSSocket) => {
      const why = refusal(socket);
      const below = this.#below(socket);
      const goes = this.#room.shakeHands(below, why === undefined);
      if (goes !== undefined) this.#makeGo(goes);
      if (goes === below) return;
      if (why === undefined) this.#take(socket, socket.getPeerX509Certificate()?.fingerprint256 ?? '');
      else this.#refuse(socket, why);
    });
    server.on('tlsClientError', (cause, socket) => {
      this.#fault(cause);
      socket.destroy();
    });
    return server;
  }

  /** False: there is no room for it. */
  #enter(socket: Socket): boolean {
    const goes = this.#room.enter(socket, socket.remoteAddress ?? '', this.#options.clock.ms());
    if (goes !== undefined) this.#makeGo(goes);
    if (goes === socket) return false;
    this.#sockets.add(socket);
    socket.once('close', () => {
      this.#room.leave(socket);
      this.#sockets.delete(socket);
    });
    return true;
  }

  #take(socket: Socket, client: string): void {
    this.#peers.add(new QueuePeer(socket, client, this.#host));
  }

  /** Tells it why, and closes; what it sends is thrown away unread. */
  #refuse(socket: Socket, why: string): void {
    this.#fault(new Error(why));
    socket.on('error', () => undefined);
    socket.write(error(why, 'NOPERM'));
    linger(socket, this.#options.clock);
  }

  #makeGo(socket: Socket): void {
    this.#fault(new Error('too many connections'));
    socket.destroy();
  }

  #holds(peer: QueuePeer, bytes: number): void {
    this.#received += bytes - peer.bytesHeld;
    peer.bytesHeld = bytes;
    while (this.#received > this.#receivedBytesMax) {
      const largest = largestOf(this.#peers);
      this.#received -= largest.bytesHeld;
      largest.bytesHeld = 0;
      this.#fault(new Error('too many bytes of commands that are not whole'));
      largest.destroy();
    }
  }

  #check(): void {
    for (const socket of this.#room.slowOnes(this.#options.clock.ms())) this.#makeGo(socket);
    for (const peer of this.#peers) {
      if (!peer.isOverdue) continue;
      this.#fault(new Error('no command came in time'));
      peer.destroy();
    }
  }

  /** The TCP connection below a TLS connection, or itself. */
  #below(socket: Socket): Socket {
    return this.#options.tls === undefined ? socket : socketBelow(socket as TLSSocket);
  }

  #fault(cause: unknown): void {
    const reason = messageOf(cause);
    this.#faultLog.line((heldBack) =>
      this.#options.log.warn({ reason, heldBack }, "a gateway's connection was refused or broke"),
    );
  }
}

/** Of the client whose connections hold most together, the connection that holds most. */
function largestOf(peers: ReadonlySet<QueuePeer>): QueuePeer {
  const byClient = new Map<string, number>();
  for (const { client, bytesHeld } of peers) byClient.set(client, (byClient.get(client) ?? 0) + bytesHeld);
  const share = ({ client }: QueuePeer): number => byClient.get(client) ?? 0;
  return [...peers].reduce((most, one) => {
    const more = share(one) - share(most);
    return more > 0 || (more === 0 && one.bytesHeld > most.bytesHeld) ? one : most;
  });
}
