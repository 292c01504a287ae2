// The dispatcher as a real process, in front of two real Redis servers.
import { Program } from './program.ts';
import { freePort, TestRedis } from './redis.ts';
import { atEnd } from './scope.ts';

export interface TestDispatcherOptions {
  readonly redis?: readonly [even: TestRedis, odd: TestRedis];
  readonly env?: Readonly<Record<string, string>>;
}

export class TestDispatcher {
  readonly redis: readonly [even: TestRedis, odd: TestRedis];
  readonly port: number;
  readonly adminUrl: string;
  readonly #env: Readonly<Record<string, string>>;
  program: Program;

  private constructor(
    redis: readonly [TestRedis, TestRedis],
    ports: readonly [port: number, adminPort: number],
    env: Readonly<Record<string, string>>,
  ) {
    this.redis = redis;
    this.port = ports[0];
    this.adminUrl = `http://127.0.0.1:${ports[1]}`;
    this.#env = {
      INGEST_DISPATCH_ADDR: `127.0.0.1:${ports[0]}`,
      INGEST_ADMIN_ADDR: `127.0.0.1:${ports[1]}`,
      INGEST_DISPATCH_QUEUE_A_URI: redis[0].uri,
      INGEST_DISPATCH_QUEUE_B_URI: redis[1].uri,
      ...env,
    };
    this.program = new Program('ingest-dispatcher', { env: this.#env });
    atEnd(() => this.program.kill());
  }

  /** Starts it with two servers, of its own by default, and waits until it listens. */
  static async start(options: TestDispatcherOptions = {}): Promise<TestDispatcher> {
    const redis = options.redis ?? (await Promise.all([TestRedis.start(), TestRedis.start()]));
    const ports = await Promise.all([freePort(), freePort()]);
    const dispatcher = new TestDispatcher(redis, ports, options.env ?? {});
    await dispatcher.program.listening();
    return dispatcher;
  }

  /** Again, on the same addresses, after it has ended. */
  async restart(): Promise<void> {
    this.program = new Program('ingest-dispatcher', { env: this.#env });
    await this.program.listening();
  }

  get uri(): string {
    return `dispatcher://127.0.0.1:${this.port}`;
  }

  /** Both queues, as consumers are given them. */
  get queueUris(): string {
    return this.redis.map(({ uri }) => uri).join(' ');
  }

  /** The value of one sample of /metrics; NaN where it is not there. */
  async metric(sample: string): Promise<number> {
    const text = await (await fetch(`${this.adminUrl}/metrics`)).text();
    const line = text.split('\n').find((candidate) => candidate.startsWith(`${sample} `));
    return Number(line?.slice(sample.length + 1));
  }

  async ready(): Promise<{ readonly status: number; readonly body: Readonly<Record<string, unknown>> }> {
    const response = await fetch(`${this.adminUrl}/health/ready`);
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  }
}
