// The real gateway: its launcher, in a process of its own, asked over real TLS.
import { Agent, request as httpsRequest } from 'node:https';
import type { IncomingHttpHeaders } from 'node:http';
import { connect, createSecureContext, type ConnectionOptions, type SecureContext, type TLSSocket } from 'node:tls';
import { WITHIN_MS } from './deadline.ts';
import { type Pki, type ClientCertificate } from './pki.ts';
import type { TestRedis } from './redis.ts';
import { atEnd, eventually, start, temporaryFolder, type Child, type StartOptions } from './scope.ts';

export const GATEWAY = new URL('../../bin/ingest-gateway', import.meta.url).pathname;

/**
 * For tests of what becomes of events, and not of how soon: on a busy machine the default time-out is a timed
 * assertion, and turns answers into 503. `TestGateway.start` has it where a test says nothing else.
 */
export const PATIENT = { INGEST_ENQUEUE_TIMEOUT_MS: '5000' } as const;

/**
 * Test files that are to run against node:http alone set it before they load the others: see
 * end-to-end/node-reader.test.ts.
 */
const READER =
  process.env['TEST_HTTP_READER'] === undefined ? {} : { INGEST_HTTP_READER: process.env['TEST_HTTP_READER'] };

export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  /** The body as JSON; undefined when it is none. */
  readonly json: Readonly<Record<string, unknown>> | undefined;
}

export interface Ask {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

const contexts = new Map<string, SecureContext>();

/**
 * Options of a connection as this producer, or as nobody. Reading the certificates takes as long as half of a
 * handshake, so connections share what was read, unless they have options of their own.
 */
function tlsOptions(
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

/** The environment of a child without this machine's own INGEST_ keys. */
export function environment(extra: Readonly<Record<string, string>>): NodeJS.ProcessEnv {
  const env: NodeJS.ProcessEnv = {};
  for (const [key, value] of Object.entries(process.env)) if (!key.startsWith('INGEST_')) env[key] = value;
  return { ...env, ...extra };
}

/** Any of the project's processes: its lines, and how it ends. */
export class TestProcess {
  readonly child: Child;
  readonly lines: string[] = [];
  /** Once it has ended and all of its output is in `lines`: what a process wrote last may arrive after its exit. */
  readonly #ended: Promise<{ readonly code: number | null; readonly signal: string | null }>;

  constructor(
    command: string,
    args: readonly string[],
    env: Readonly<Record<string, string>>,
    options: StartOptions = {},
  ) {
    this.child = start(command, args, environment(env), options);
    this.#ended = new Promise((resolve) =>
      this.child.once('close', (code: number | null, signal: string | null) => resolve({ code, signal })),
    );
    for (const stream of [this.child.stdout, this.child.stderr]) {
      let rest = '';
      stream.setEncoding('utf8').on('data', (chunk: string) => {
        const parts = (rest + chunk).split('\n');
        rest = parts.pop() ?? '';
        this.lines.push(...parts);
      });
      stream.on('end', () => {
        if (rest !== '') this.lines.push(rest);
      });
    }
  }

  get output(): string {
    return this.lines.join('\n');
  }

  signal(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  exited(): Promise<{ readonly code: number | null; readonly signal: string | null }> {
    return this.#ended;
  }

  /** Waits for a line that matches. */
  line(pattern: RegExp, deadlineMs = WITHIN_MS): Promise<string> {
    return eventually(
      `a line like ${String(pattern)} from process ${this.child.pid}`,
      () => {
        const found = this.lines.find((line) => pattern.test(line));
        if (found === undefined && this.child.exitCode !== null) throw new Error(`it ended:\n${this.output}`);
        return found;
      },
      deadlineMs,
    );
  }
}

export class TestGateway extends TestProcess {
  readonly pki: Pki;
  port = 0;
  #scraper: TestClient | undefined;

  private constructor(pki: Pki, env: Readonly<Record<string, string>>) {
    super(GATEWAY, [], env);
    this.pki = pki;
  }

  /** Starts one on a free port and waits until it listens. `env` overrides. */
  static async start(
    redis: Pick<TestRedis, 'uri'>,
    pki: Pki,
    env: Readonly<Record<string, string>> = {},
  ): Promise<TestGateway> {
    const gateway = new TestGateway(pki, {
      INGEST_QUEUE_URI: redis.uri,
      INGEST_GATEWAY_ADDR: '127.0.0.1:0',
      INGEST_STATE_DIR: temporaryFolder('ingest-state-'),
      ...pki.environment,
      ...PATIENT,
      ...READER,
      ...env,
    });
    const line = await gateway.line(/listening on https:\/\//);
    gateway.port = Number(/listening on https:\/\/[^"]*:(\d+)/.exec(line)?.[1]);
    return gateway;
  }

  /** A client of this gateway; without a certificate it is nobody. */
  client(certificate?: ClientCertificate, options: ConnectionOptions = {}): TestClient {
    return new TestClient(this.port, this.pki.authority.certificate, certificate, options);
  }

  /** A bare TLS connection, for what no HTTP client would send. */
  async socket(certificate?: ClientCertificate, options: ConnectionOptions = {}): Promise<RawConnection> {
    const socket = connect({
      host: '127.0.0.1',
      port: this.port,
      ...tlsOptions(this.pki.authority.certificate, certificate, options),
    });
    const raw = new RawConnection(socket);
    await new Promise((resolve, reject) => {
      socket.once('secureConnect', resolve);
      socket.once('error', reject);
    });
    return raw;
  }

  /** The sum of a metric's samples whose labels hold all of `labels`. */
  async metric(name: string, labels: Readonly<Record<string, string>> = {}): Promise<number> {
    const { body } = await this.#scrape();
    let sum = 0;
    for (const line of body.split('\n')) {
      const match = /^([a-zA-Z_:]+)(?:\{(.*)\})? (\S+)$/.exec(line);
      if (match?.[1] !== name) continue;
      if (Object.entries(labels).every(([key, value]) => (match[2] ?? '').includes(`${key}="${value}"`)))
        sum += Number(match[3]);
    }
    return sum;
  }

  /** On one connection as long as the gateway keeps it: a handshake takes more than a scrape. */
  async #scrape(): Promise<Reply> {
    const kept = await this.#scraper?.ask({ path: '/metrics' }).catch(() => undefined);
    if (kept !== undefined) return kept;
    this.#scraper?.close();
    this.#scraper = this.client();
    return this.#scraper.ask({ path: '/metrics' });
  }
}

/** A request that was not answered. `sent` is false where there was no connection to send it on. */
export class RequestFailed extends Error {
  readonly sent: boolean;

  constructor(message: string, sent: boolean) {
    super(message);
    this.sent = sent;
  }
}

export class TestClient {
  readonly #port: number;
  readonly #agent: Agent;

  constructor(port: number, ca: string, certificate: ClientCertificate | undefined, options: ConnectionOptions) {
    this.#port = port;
    this.#agent = new Agent({ keepAlive: true, ...tlsOptions(ca, certificate, options) });
    atEnd(() => this.close());
  }

  close(): void {
    this.#agent.destroy();
  }

  ask(ask: Ask): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const request = httpsRequest(
        {
          host: '127.0.0.1',
          port: this.#port,
          agent: this.#agent,
          method: ask.method ?? 'GET',
          path: ask.path,
          headers: {
            ...(ask.body === undefined ? {} : { 'content-length': Buffer.byteLength(ask.body) }),
            ...ask.headers,
          },
        },
        (response) => {
          const chunks: Buffer[] = [];
          response.on('data', (chunk: Buffer) => chunks.push(chunk));
          response.on('error', reject);
          response.on('end', () => {
            const body = Buffer.concat(chunks).toString('utf8');
            resolve({ status: response.statusCode ?? 0, headers: response.headers, body, json: parsed(body) });
          });
        },
      );
      // TLS stands: from here on the request's bytes can get in.
      let sent = false;
      request.on('socket', (socket) => {
        if (request.reusedSocket || !(socket as TLSSocket & { secureConnecting: boolean }).secureConnecting)
          sent = true;
        else socket.once('secureConnect', () => (sent = true));
      });
      request.on('error', (error) => reject(new RequestFailed(error.message, sent)));
      request.end(ask.body);
    });
  }

  /** POST /events with this body. */
  post(body: string | Buffer, headers: Readonly<Record<string, string>> = {}): Promise<Reply> {
    return this.ask({
      method: 'POST',
      path: '/events',
      body,
      headers: { 'content-type': 'application/json', ...headers },
    });
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

  /** Waits until what has been received matches. */
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

/** An event's body. */
export function event(id: string, more: Readonly<Record<string, unknown>> = {}): string {
  return JSON.stringify({ id, type: 'test.event', ...more });
}
