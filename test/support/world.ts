// Gateway, consumer and load of a situation, and what they say: page, readiness and `ingest-admin status`.
import { join } from 'node:path';
import { freePort } from './free-port.ts';
import { TestGateway } from './gateway.ts';
import { Load } from './load.ts';
import { Pki } from './pki.ts';
import { Program } from './program.ts';
import type { TestRedis } from './redis.ts';
import { temporaryFolder } from './scope.ts';
import { poll, problems, well } from './status-rules.ts';

export type ProgramName = 'gateway' | 'consumer';
/** The metrics of the programs that answer. */
export type Reading = Readonly<{ atMs: number } & Partial<Record<ProgramName, string>>>;

const CONNECTIONS = 40;
export const pki = await Pki.create();
const producer = await pki.producer('one');

const waitsFor = (ms: number): AbortSignal => AbortSignal.timeout(ms);
const text = async (url: string): Promise<string> => (await fetch(url, { signal: waitsFor(1_500) })).text();

export class World {
  readonly redis: readonly TestRedis[];
  readonly gateway: TestGateway;
  readonly consumer: Program;
  readonly urls: Readonly<Record<ProgramName, string>>;
  readonly env: Readonly<Record<string, string>>;
  readonly load: Load;
  #startMs = 0;
  #forgottenMs = 0;

  private constructor(parts: Pick<World, 'redis' | 'gateway' | 'consumer' | 'urls' | 'env'>) {
    this.redis = parts.redis;
    this.gateway = parts.gateway;
    this.consumer = parts.consumer;
    this.urls = parts.urls;
    this.env = parts.env;
    this.load = new Load(this.gateway.client(producer), 'said', CONNECTIONS, 400, true);
  }

  static async start(
    redis: readonly TestRedis[],
    extra: Readonly<Record<string, string>> = {},
    warehouse = `sqlite:${join(temporaryFolder(), 'warehouse.db')}`,
    ports: readonly number[] = redis.map(({ port }) => port),
  ): Promise<World> {
    const hosts = ports.map((port) => `127.0.0.1:${port}`).join();
    const uri = `${ports.length > 1 ? 'dispatcher' : 'redis'}://${hosts}`;
    const admin = `127.0.0.1:${await freePort()}`;
    const env = { INGEST_QUEUE_URI: uri, INGEST_WAREHOUSE_URI: warehouse };
    const consumer = new Program('ingest-consumer', { env: { ...env, INGEST_CONSUMER_ADDR: '127.0.0.1:0' } });
    const gateway = await TestGateway.start({ uri }, pki, {
      ...{ INGEST_ADMIN_ADDR: admin, INGEST_ENQUEUE_TIMEOUT_MS: ports.length > 1 ? '' : '800' },
      ...{ INGEST_DRAIN_DELAY_MS: '30000', INGEST_DRAIN_TIMEOUT_MS: '60000', ...extra },
    });
    const urls = { gateway: `http://${admin}`, consumer: await consumer.listening() };
    const world = new World({ redis, gateway, consumer, urls, env });
    await world.load.more(CONNECTIONS);
    return world;
  }

  async read(): Promise<Reading> {
    const answers = await Promise.all(
      (['gateway', 'consumer'] as const).map(async (name) => [
        name,
        await text(`${this.urls[name]}/metrics`).catch(() => undefined),
      ]),
    );
    return { atMs: performance.now(), ...(Object.fromEntries(answers) as Partial<Record<ProgramName, string>>) };
  }

  async ready(program: ProgramName): Promise<{ readonly status: number; readonly body: string }> {
    const response = await fetch(`${this.urls[program]}/health/ready`, { signal: waitsFor(1_500) });
    return { status: response.status, body: await response.text() };
  }

  /** Another history of the page: an hour later. */
  forget(): void {
    this.#startMs = historyMs += 3_600_000;
    this.#forgottenMs = performance.now();
  }

  /** The control of sentences and alerts about stalls and latency: true if the clients have seen it themselves. */
  get wasSlow(): boolean {
    return this.load.slowestSince(this.#forgottenMs) > 0;
  }

  /** Polls as the page does. Returns its first sentence, with its word and level. */
  async said(program: ProgramName, isPause = false): Promise<string> {
    const [metrics, ready] = await Promise.all([
      text(`${this.urls[program]}/metrics`),
      text(`${this.urls[program]}/health/ready`),
    ]);
    poll(program, JSON.parse(ready), metrics, this.#startMs + performance.now());
    const [first] = problems()
      // A busy machine stalls the programs. Then the next sentence counts.
      .filter(
        ({ name, isConsequence }) => !isConsequence && (isPause || !/stalls|latency/.test(name) || !this.wasSlow),
      );
    const shown = first === undefined ? `LIVE good ${well()}` : `${first.word} ${first.level} ${first.text}`;
    return shown.replaceAll('\u00a0', ' ');
  }

  async status(): Promise<{ readonly exit: number | NodeJS.Signals; readonly output: string }> {
    const program = new Program('ingest-admin', { args: ['status'], env: this.env });
    const exit = await program.ended;
    return { exit, output: program.output };
  }
}
let historyMs = 0;
