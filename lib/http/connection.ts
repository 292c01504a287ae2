// One connection of a client: who the client is, its time limits, and how it closes. fast-path.ts reads its requests.
// Invariant: nothing is read or written after an answer that closes the connection.
import type { X509Certificate } from 'node:crypto';
import type { BlockList, Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { Clock } from '../process/clock.ts';
import type { ConnectionFailure } from './connection-failure.ts';
import type { HttpRequest, ProtocolFault } from './request.ts';
import type { Turns } from './turns.ts';

export interface ClientCertificate {
  readonly certificate: X509Certificate;
  /** OpenSSL's reason for rejecting the certificate; `undefined` if it was accepted. */
  readonly fault: string | undefined;
}

export interface ServerHandlers<T> {
  readonly context: () => T;
  readonly request: (connection: Connection<T>, request: HttpRequest) => void;
  readonly draining: () => boolean;
  /** When bytes that are read now arrived, from `Clock.ms()`. */
  readonly arrivedMs?: () => number;
  /** Both return a complete response: to a request that cannot be read, and to plain HTTP on a port for TLS. */
  readonly protocolFault: (fault: ProtocolFault, connection: Connection<T>, requestId: string | undefined) => string;
  readonly plainHttp?: (requestId: string | undefined) => string;
  /** The producer that has sent a request on the connection; `undefined` if none has. */
  readonly producerOf: (context: T) => string | undefined;
  readonly closed?: ((connection: Connection<T>) => void) | undefined;
  readonly bug: (cause: unknown, connection: Connection<T>) => void;
  /** `address` is the client's, or the balancer's if it sent no header. */
  readonly connectionFailure?: (reason: ConnectionFailure, address: string) => void;
}

export interface ServerLimits {
  readonly connectionsMax: number;
  /** Maximum number of strangers from one address; 0 means no limit. */
  readonly connectionsPerAddressMax: number;
  /** What connections may hold: for each producer, and in total, together with the bytes in flight. */
  readonly held: {
    readonly producerBytesMax: number;
    readonly totalBytesMax: number;
    readonly bytesInFlight: () => number;
  };
  readonly headerBytesMax: number;
  readonly handshakeTimeoutMs: number;
  /** Times for the first or next request to begin. node:http limits the rest of a request. */
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly idleTimeoutMs: number;
  /** `node` switches the fast path off. */
  readonly httpReader: 'own' | 'node';
  /** The load balancers, the only clients, which must send a PROXY header; `undefined` if clients connect directly. */
  readonly proxyFrom: BlockList | undefined;
}

export interface Host<T> {
  readonly clock: Clock;
  readonly turns: Turns;
  readonly keepAliveTail: (epochMs: number) => string;
  readonly limits: ServerLimits;
  readonly handlers: ServerHandlers<T>;
  /** Passes a connection to node:http. Returns node's listener for data. */
  readonly adopt: (connection: Connection<T>) => (bytes: Buffer) => void;
}

type Phase = 'header' | 'hello' | 'turn' | 'handshake' | 'open' | 'closing';

/** Time limits for the client to read its last answers, and then to close its side. */
const [LAST_WRITE_MS, LINGER_MS] = [10_000, 1_000];
/** A request may be on its way when the announced idle timeout ends, or when the server begins to stop. */
const [IDLE_SLACK_MS, IDLE_GRACE_MS] = [1_000, 400];
/** A client chooses the length of its TLS records: the memory of each one's Buffer, and the length of its head. */
const [PIECE_BYTES, RECORD_BYTES] = [256, 22];
// Fact: a KeyUpdate of TLS 1.3 has 27 bytes, brings no data, and costs 11 to 35 µs of CPU time. Choice: a limit for
// bytes of TCP that bring no data, of one long unfinished record and a few small ones a minute. A byte of data excuses
// 30. Effect: a client that sends nothing else is disconnected after about 760 (test/http/key-updates.test.ts).
const [EMPTY_BYTES_MAX, EMPTY_BYTES_A_CHECK, SHORT_RECORD_BYTES] = [20_480, 8, 30];
/** Memory of an unfinished handshake, and for each byte of it. */
const [HANDSHAKE_BYTES, HELLO_FACTOR] = [40_960, 2];
/** Real chains have up to 6 KB. A small certificate needs 20 to 35 times its length. */
const [USUAL_CHAIN_BYTES, LONG_CHAIN_BYTES, CERTIFICATE_FACTOR] = [4_096, 8_192, 24];

const certificateMemory = ({ certificateBytes: bytes }: { readonly certificateBytes: number }): number =>
  bytes <= USUAL_CHAIN_BYTES
    ? 0
    : (CERTIFICATE_FACTOR / 3) * (bytes - USUAL_CHAIN_BYTES) +
      CERTIFICATE_FACTOR * Math.max(0, bytes - LONG_CHAIN_BYTES);

export abstract class Connection<T> {
  readonly tcp: Socket;
  /** The TLS connection above `tcp`; the same as `tcp` in plain HTTP, and until the handshake is done. */
  socket: Socket;
  /** The client's address, or the balancer's until its header has been read. */
  address: string;
  readonly context: T;
  readonly host: Host<T>;
  clientCertificate: ClientCertificate | undefined;
  /** True without an accepted certificate: the first answer closes the connection. */
  hasOneAnswer = true;
  /** Why the connection was closed, or has no TLS. */
  failure: ConnectionFailure | undefined;
  fault: ProtocolFault | undefined;
  /** True if the connection closes after the answers that it owes. */
  isRetiring = false;
  phase: Phase = 'hello';
  /** When the bytes that are being handled arrived. */
  readMs = 0;
  helloBytes = 0;
  certificateBytes = 0;
  /** The request id of a client that sent plain HTTP instead of TLS. */
  plainRequestId: string | undefined;
  /** When the phase began, or the client's latest progress in it; `Infinity` while it waits for the server's turn. */
  sinceMs = 0;
  #limitMs = 0;
  #isAwake = false;
  /** What the last check found: bytes written; bytes received, without and with TLS, and the memory for each. */
  #progress = 0;
  #seen = { bytes: 0, tcpBytes: 0, memoryPerByte: 1 };
  /** Bytes of TCP that brought no data, less those that time has forgiven. */
  #emptyBytes = 0;

  constructor(tcp: Socket, address: string, host: Host<T>) {
    this.tcp = tcp;
    this.socket = tcp;
    this.address = address;
    this.context = host.handlers.context();
    this.host = host;
    this.enter('hello', host.limits.handshakeTimeoutMs);
    tcp.on('error', () => undefined); // A 'close' event follows.
  }

  abstract get isBusy(): boolean;
  abstract closesAfter(request: HttpRequest): boolean;
  /** Called at the end of a turn after `wake`. */
  protected abstract flush(): void;

  enter(phase: Phase, limitMs = Infinity): void {
    this.phase = phase;
    this.sinceMs = phase === 'turn' ? Infinity : this.host.clock.ms();
    this.#limitMs = limitMs;
  }

  /** Called when requests may arrive. */
  open(socket: Socket): void {
    const { limits, handlers } = this.host;
    this.socket = socket;
    this.#seen.tcpBytes = this.tcp.bytesRead;
    this.hasOneAnswer = false;
    if (socket instanceof TLSSocket) {
      // Read once: later, the certificate would be the newest one, but `authorized` would still refer to the first.
      const certificate = socket.getPeerX509Certificate();
      const fault = socket.authorized ? undefined : String(socket.authorizationError);
      this.clientCertificate = certificate && { certificate, fault };
      this.hasOneAnswer = certificate === undefined || fault !== undefined;
    }
    // A stranger has less time for its first request. It gets no answer, which may seem to be that of a later request.
    this.enter('open', this.hasOneAnswer ? Math.min(this.#idleMs, limits.headersTimeoutMs) : this.#idleMs);
    socket.on('error', () => undefined);
    socket.on('drain', () => this.wake());
    socket.on('close', () => handlers.closed?.(this));
  }

  get #idleMs(): number {
    return this.host.limits.idleTimeoutMs + IDLE_SLACK_MS;
  }
  get hasClientHello(): boolean {
    return this.tcp.bytesWritten > 0; // The server answers a whole ClientHello.
  }
  get isOpen(): boolean {
    return this.phase === 'open' || this.isClosing;
  }
  get isClosing(): boolean {
    return this.phase === 'closing';
  }
  get isGone(): boolean {
    return this.socket.destroyed;
  }
  get producer(): string | undefined {
    return this.host.handlers.producerOf(this.context);
  }
  /** The holder of turns and memory. Empty for all unauthenticated clients together. */
  get holder(): string {
    return this.producer ?? (this.hasOneAnswer ? '' : 'authenticated');
  }
  get isIdle(): boolean {
    return this.phase === 'open' && this.socket.writableLength === 0 && !this.isBusy;
  }

  /** Returns the memory of its handshake, unhandled requests and unread answers. */
  heldBytes(): number {
    const { readableLength, writableLength } = this.socket;
    if (this.isOpen) return readableLength * this.#seen.memoryPerByte + writableLength + certificateMemory(this);
    const { bytesRead } = this.tcp;
    return bytesRead === 0 ? 0 : HELLO_FACTOR * bytesRead + (this.phase === 'handshake' ? HANDSHAKE_BYTES : 0);
  }

  /** Returns false if what arrived since the last check brought too little data. */
  #countBytes(): boolean {
    const { socket, tcp } = this;
    const seen = this.#seen;
    const [bytes, tcpBytes] = [socket.bytesRead - seen.bytes, tcp.bytesRead - seen.tcpBytes];
    if (bytes > 0) {
      const records = Math.max(0, tcpBytes - bytes) / RECORD_BYTES;
      seen.memoryPerByte = 1 + PIECE_BYTES * Math.min(1, records / bytes);
    }
    seen.bytes += bytes;
    seen.tcpBytes += tcpBytes;
    const emptyBytes = this.#emptyBytes + tcpBytes - SHORT_RECORD_BYTES * bytes;
    this.#emptyBytes = Math.max(0, emptyBytes - EMPTY_BYTES_A_CHECK);
    return emptyBytes <= EMPTY_BYTES_MAX;
  }

  /** Returns a listener that closes the connection if it fails. */
  protected guarded<A>(run: (argument: A) => void): (argument: A) => void {
    return (argument) => {
      try {
        run(argument);
      } catch (cause) {
        this.socket.destroy();
        this.host.handlers.bug(cause, this);
      }
    };
  }

  wake(): void {
    if (this.#isAwake) return;
    this.#isAwake = true;
    this.host.turns.atEnd(this.#flush);
  }

  readonly #flush = this.guarded<void>(() => {
    this.#isAwake = false;
    if (!this.isClosing && !this.isGone) this.flush();
  });

  /**
   * Closes the connection after `text`, the rest of its answers. What the client sends meanwhile is discarded: closing
   * would reset the connection, and the client may see the reset before it reads the answer (RFC 9112, section 9.6).
   */
  finish(text = ''): void {
    if (this.isClosing) return;
    this.enter('closing', LAST_WRITE_MS);
    const { socket } = this;
    if (text !== '') socket.write(text, 'latin1');
    socket.end(() => this.enter('closing', LINGER_MS));
    socket.removeAllListeners('data').resume();
  }

  fail(reason: ConnectionFailure): void {
    this.failure ??= reason;
    this.socket.destroy();
  }

  /** Closes the connection after the answers to the requests that are being handled. Drops all later requests. */
  retire(): void {
    this.isRetiring = true;
    this.wake();
  }

  /** Closes the connection if its phase lasts too long. `drainsSinceMs`: when the server began to stop. */
  check(nowMs: number, drainsSinceMs: number): void {
    const { socket, phase } = this;
    if (this.isOpen && !this.#countBytes()) return this.fail('limit');
    // Node has a time limit for a request that is arriving.
    const isServing = socket.writableLength === 0 && this.isBusy;
    if (phase === 'open' && (isServing || socket.bytesWritten !== this.#progress)) {
      this.#progress = socket.bytesWritten;
      this.enter('open', this.#idleMs);
    }
    const limitMs = this.isRetiring ? Math.min(this.#limitMs, LAST_WRITE_MS) : this.#limitMs;
    const isLate = nowMs - this.sinceMs >= limitMs;
    // A connection whose handshake ends during a stop has the grace time from then on.
    const isLeft = nowMs - Math.max(this.sinceMs, drainsSinceMs) >= IDLE_GRACE_MS;
    if (this.isIdle && (isLate || isLeft)) this.finish();
    else if (this.isOpen && isLate) socket.destroy();
    else if (!this.isOpen && isLate) this.fail(phase === 'header' ? 'proxy_header' : 'timeout');
    else if (!this.isOpen && isLeft && phase !== 'handshake') this.tcp.destroy();
  }
}
