// The real gateway: its launcher, in a process of its own, asked over real TLS.
import { connect, type ConnectionOptions } from 'node:tls';
import { RawConnection, TestClient, tlsOptions, type Reply } from './client.ts';
import { WITHIN_MS } from './deadline.ts';
import { type Pki, type ClientCertificate } from './pki.ts';
import type { TestRedis } from './redis.ts';
import { eventually, start, temporaryFolder, type Child, type StartOptions } from './scope.ts';

export { event, RawConnection, RequestFailed, TestClient, type Ask, type Reply } from './client.ts';

export const GATEWAY = new URL('../../bin/ingest-gateway', import.meta.url).pathname;

/**
 * For tests of what becomes of events, and not of how soon: on a busy machine the default time-out is a timed
 * assertion, and turns answers into 503. `TestGateway.start` has it where a test says nothing else.
 */
export const PATIENT = { INGEST_ENQUEUE_TIMEOUT_MS: '5000' } as const;

/**
 * Test files that are to run against node:http alone set it before they load the others: see
 * end-to-end/node-reader.long.ts.
 */
const READER =
  process.env['TEST_HTTP_READER'] === undefined ? {} : { INGEST_HTTP_READER: process.env['TEST_HTTP_READER'] };

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
