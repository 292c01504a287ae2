// Gateway, consumer and load of a situation, and what they say: page, readiness and `ingest-admin status`.
import { join } from 'node:path';
import { freePort } from './free-port.ts';
import { TestGateway } from './gateway.ts';
import { Load } from './load.ts';
import { Pki } from './pki.ts';
import { Program } from './program.ts';
import type { TestRedis } from './redis.ts';
import { temporaryFolder } from './scope.ts';

interface Problem {
  readonly name: string;
  readonly word: string;
  readonly level: string;
  readonly text: string;
  readonly isConsequence: boolean;
}
interface Page {
  readonly now: { program: string; ready: unknown };
  readonly problems: () => readonly Problem[];
  readonly well: () => string;
  readonly parse: (text: string) => unknown;
  readonly record: (ms: number, figures: unknown) => void;
  readonly figuresOf: (families: unknown, ms: number) => unknown;
}
const modules = ['status-figures.js', 'status-rules.js'].map(
  (name) => new URL(`../../lib/telemetry/${name}`, import.meta.url).href,
);
const [figures, rules] = await Promise.all(modules.map((url) => import(url) as Promise<object>));
const page = { ...figures, ...rules } as Page;

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
  ): Promise<World> {
    const [first] = redis;
    const hosts = redis.map(({ port }) => `127.0.0.1:${port}`).join();
    const uri = redis.length > 1 ? `dispatcher://${hosts}` : (first?.uri ?? '');
    const admin = `127.0.0.1:${await freePort()}`;
    const env = { INGEST_QUEUE_URI: uri, INGEST_WAREHOUSE_URI: warehouse };
    const consumer = new Program('ingest-consumer', { env: { ...env, INGEST_CONSUMER_ADDR: '127.0.0.1:0' } });
    const gateway = await TestGateway.start({ uri }, pki, {
      ...{ INGEST_ADMIN_ADDR: admin, INGEST_ENQUEUE_TIMEOUT_MS: redis.length > 1 ? '' : '800' },
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
  }

  /**
   * Polls as the page does. Returns its first sentence, with its word and level. A busy machine stalls the programs.
   */
  async said(program: ProgramName, isPause = false): Promise<string> {
    const [metrics, ready] = await Promise.all([
      text(`${this.urls[program]}/metrics`),
      text(`${this.urls[program]}/health/ready`),
    ]);
    page.now.program = program;
    page.now.ready = JSON.parse(ready);
    const ms = this.#startMs + performance.now();
    page.record(ms, page.figuresOf(page.parse(metrics), ms));
    const [first] = page
      .problems()
      .filter(({ name, isConsequence }) => !isConsequence && (isPause || !/stalls|latency/.test(name)));
    const shown = first === undefined ? `LIVE good ${page.well()}` : `${first.word} ${first.level} ${first.text}`;
    return shown.replaceAll('\u00a0', ' ');
  }

  async status(): Promise<{ readonly exit: number | NodeJS.Signals; readonly output: string }> {
    const program = new Program('ingest-admin', { args: ['status'], env: this.env });
    const exit = await program.ended;
    return { exit, output: program.output };
  }
}
let historyMs = 0;
