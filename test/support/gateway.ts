// The real gateway, started by its launcher and queried over TLS.
import { connect, type ConnectionOptions } from 'node:tls';
import { RawConnection, TestClient, tlsOptions, type Reply } from './client.ts';
import { within, WITHIN_MS } from './deadline.ts';
import { type Pki, type ClientCertificate } from './pki.ts';
import type { TestRedis } from './redis.ts';
import { Scrape } from './scrape.ts';
import { eventually, start, temporaryFolder, type Child, type StartOptions } from './scope.ts';

export { event, RawConnection, RequestFailed, TestClient, type Ask, type Reply } from './client.ts';

export const GATEWAY = new URL('../../bin/ingest-gateway', import.meta.url).pathname;

/** The default of `TestGateway.start`. On a busy machine a shorter timeout would lead to 503 answers. */
export const PATIENT = { INGEST_ENQUEUE_TIMEOUT_MS: '5000' } as const;

/** Returns the environment of a child process, without the INGEST_ variables of this process. */
export function environment(extra: Readonly<Record<string, string>>): NodeJS.ProcessEnv {
  const env: NodeJS.ProcessEnv = {};
  for (const [key, value] of Object.entries(process.env)) if (!key.startsWith('INGEST_')) env[key] = value;
  return { ...env, ...extra };
}

export class TestProcess {
  readonly child: Child;
  readonly lines: string[] = [];
  /** Resolves when all output has been read, which may be after the exit. */
  readonly #ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;

  constructor(
    command: string,
    args: readonly string[],
    env: Readonly<Record<string, string>>,
    options: StartOptions = {},
  ) {
    this.child = start(command, args, environment(env), options);
    this.#ended = new Promise((resolve) =>
      this.child.once('close', (code: number | null, signal: NodeJS.Signals | null) => resolve({ code, signal })),
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

  exited(deadlineMs = WITHIN_MS): Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }> {
    return within(`process ${this.child.pid} ends`, this.#ended, deadlineMs);
  }

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
      ...env,
    });
    const line = await gateway.line(/listening on https:\/\//);
    gateway.port = Number(/listening on https:\/\/[^"]*:(\d+)/.exec(line)?.[1]);
    return gateway;
  }

  client(certificate?: ClientCertificate, options: ConnectionOptions = {}): TestClient {
    return new TestClient(this.port, this.pki.authority.certificate, certificate, options);
  }

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

  async metric(name: string, labels: Readonly<Record<string, string>> = {}): Promise<number> {
    return new Scrape((await this.#scrape()).body).sum(name, labels);
  }

  /** Reads the metrics over one connection that stays open, because a handshake costs more than a scrape. */
  async #scrape(): Promise<Reply> {
    const kept = await this.#scraper?.ask({ path: '/metrics' }).catch(() => undefined);
    if (kept !== undefined) return kept;
    this.#scraper?.close();
    this.#scraper = this.client();
    return this.#scraper.ask({ path: '/metrics' });
  }
}
