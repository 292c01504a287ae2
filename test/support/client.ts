import { Agent, request as httpsRequest, type AgentOptions } from 'node:https';
import type { IncomingHttpHeaders } from 'node:http';
import type { Duplex } from 'node:stream';
import { text } from 'node:stream/consumers';
import { createSecureContext, type ConnectionOptions, type SecureContext, type TLSSocket } from 'node:tls';
import { within, WITHIN_MS } from './deadline.ts';
import type { ClientCertificate } from './pki.ts';
import { atEnd, eventually } from './scope.ts';

export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly json: Readonly<Record<string, unknown>> | undefined;
}

export interface Ask {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  readonly signal?: AbortSignal;
}

const contexts = new Map<string, SecureContext>();

/**
 * Returns the TLS options of a connection. Parsing certificates takes half as long as a handshake, so connections
 * without other options share a context.
 */
export function tlsOptions(
  ca: string,
  certificate: ClientCertificate | undefined,
  options: ConnectionOptions,
): ConnectionOptions {
  const files = { ca, ...(certificate === undefined ? {} : { cert: certificate.cert, key: certificate.key }) };
  if (Object.keys(options).length > 0) return { ...files, ...options };
  const name = `${ca}${certificate?.cert ?? ''}`;
  const secureContext = contexts.get(name) ?? createSecureContext(files);
  contexts.set(name, secureContext);
  return { secureContext };
}

/** A request that got no answer. */
export class RequestFailed extends Error {
  /** False if there was no connection. Once there is one, the server may receive bytes of the request. */
  readonly sent: boolean;
  /** How long the connection was idle before the request. `undefined` for a new connection. */
  readonly idleMs: number | undefined;

  constructor(message: string, sent: boolean, idleMs: number | undefined) {
    super(`${message} (${idleMs === undefined ? 'a new connection' : `idle for ${Math.round(idleMs)} ms before`})`);
    this.sent = sent;
    this.idleMs = idleMs;
  }
}

export class TestClient {
  readonly #port: number;
  readonly #agent: Agent;
  readonly #usedMs = new WeakMap<Duplex, number>();

  constructor(
    port: number,
    ca: string,
    certificate: ClientCertificate | undefined,
    options: ConnectionOptions = {},
    pool: AgentOptions = {},
  ) {
    this.#port = port;
    this.#agent = new Agent({ keepAlive: true, ...pool, ...tlsOptions(ca, certificate, options) });
    atEnd(() => this.close());
  }

  close(): void {
    this.#agent.destroy();
  }

  ask(ask: Ask): Promise<Reply> {
    const reply = new Promise<Reply>((resolve, reject) => {
      const request = httpsRequest(
        {
          host: '127.0.0.1',
          port: this.#port,
          agent: this.#agent,
          method: ask.method ?? 'GET',
          path: ask.path,
          ...(ask.signal !== undefined && { signal: ask.signal }),
          headers: {
            ...(ask.body === undefined ? {} : { 'content-length': Buffer.byteLength(ask.body) }),
            ...ask.headers,
          },
        },
        (response) => {
          const { statusCode: status = 0, headers, socket } = response;
          text(response).then((body) => {
            this.#usedMs.set(socket, performance.now());
            resolve({ status, headers, body, json: parsed(body) });
          }, reject);
        },
      );
      let sent = false;
      let idleMs: number | undefined;
      request.on('socket', (socket) => {
        const usedMs = this.#usedMs.get(socket);
        if (usedMs !== undefined) idleMs = performance.now() - usedMs;
        if (request.reusedSocket || !(socket as TLSSocket & { secureConnecting: boolean }).secureConnecting)
          sent = true;
        else socket.once('secureConnect', () => (sent = true));
      });
      request.on('error', (error) => reject(new RequestFailed(error.message, sent, idleMs)));
      // With a string, node would encode the header in the body's encoding.
      request.end(ask.body === undefined ? undefined : Buffer.from(ask.body));
    });
    return within(`${ask.method ?? 'GET'} ${ask.path} is answered`, reply, 2 * WITHIN_MS);
  }

  post(body: string | Buffer, more: Readonly<Record<string, string>> = {}, signal?: AbortSignal): Promise<Reply> {
    const headers = { 'content-type': 'application/json', ...more };
    return this.ask({ method: 'POST', path: '/events', body, headers, ...(signal !== undefined && { signal }) });
  }

  find(id: string): Promise<Reply> {
    return this.ask({ path: `/events/${encodeURIComponent(id)}` });
  }
}

function parsed(body: string): Reply['json'] {
  try {
    return JSON.parse(body) as Reply['json'];
  } catch {
    return undefined;
  }
}

export class RawConnection {
  readonly socket: TLSSocket;
  received = '';
  ended = false;
  closed = false;
  error: Error | undefined;

  constructor(socket: TLSSocket) {
    this.socket = socket;
    socket.on('data', (chunk: Buffer) => (this.received += chunk.toString('latin1')));
    socket.on('error', (error: Error) => (this.error = error));
    socket.on('end', () => (this.ended = true));
    socket.on('close', () => (this.closed = true));
    atEnd(() => {
      socket.destroy();
    });
  }

  write(text: string | Buffer): void {
    if (typeof text === 'string') this.socket.write(text, 'latin1');
    else this.socket.write(text);
  }

  async until(pattern: RegExp, deadlineMs = WITHIN_MS): Promise<string> {
    await eventually(
      `an answer like ${String(pattern)}`,
      () => {
        if (pattern.test(this.received)) return true;
        if (this.closed) throw new Error(`closed after ${JSON.stringify(this.received)}`);
        return false;
      },
      deadlineMs,
    );
    return this.received;
  }

  untilClosed(deadlineMs = WITHIN_MS): Promise<boolean> {
    return eventually('the connection is closed', () => this.closed || this.ended, deadlineMs);
  }
}

export function event(id: string, more: Readonly<Record<string, unknown>> = {}): string {
  return JSON.stringify({ id, type: 'test.event', ...more });
}
