// A table of situations, made with real programs: what the status page, `ingest-admin status`, `/health/ready` and the
// alerts say in each. The alerts are evaluated on two readings of the metrics, continued for half an hour.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { DEPLOY, ran, tool } from '../deploy/deploy-files.ts';
import { LOCALHOST } from '../support/certificate-authority.ts';
import { freePort } from '../support/free-port.ts';
import { TestGateway, type TestProcess } from '../support/gateway.ts';
import { Load } from '../support/load.ts';
import { Pki } from '../support/pki.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { Scrape } from '../support/scrape.ts';

interface Problem {
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

type ProgramName = 'gateway' | 'consumer';
/** The metrics of the programs that answer. */
type Reading = Readonly<{ atMs: number } & Partial<Record<ProgramName, string>>>;

const CONNECTIONS = 40;
const pki = await Pki.create();
const producer = await pki.producer('one');

const waitsFor = (ms: number): AbortSignal => AbortSignal.timeout(ms);
const text = async (url: string): Promise<string> => (await fetch(url, { signal: waitsFor(1_500) })).text();

class World {
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

  static async start(redis: readonly TestRedis[], extra: Readonly<Record<string, string>> = {}): Promise<World> {
    const [first] = redis;
    const hosts = redis.map(({ port }) => `127.0.0.1:${port}`).join();
    const uri = redis.length > 1 ? `dispatcher://${hosts}` : (first?.uri ?? '');
    const admin = `127.0.0.1:${await freePort()}`;
    const warehouse = `sqlite:${join(temporaryFolder(), 'warehouse.db')}`;
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

  /** Polls as the page does. Returns its first sentence, with its word and level. */
  async said(program: ProgramName): Promise<string> {
    const [metrics, ready] = await Promise.all([
      text(`${this.urls[program]}/metrics`),
      text(`${this.urls[program]}/health/ready`),
    ]);
    page.now.program = program;
    page.now.ready = JSON.parse(ready);
    const ms = this.#startMs + performance.now();
    page.record(ms, page.figuresOf(page.parse(metrics), ms));
    const [first] = page.problems().filter(({ isConsequence }) => !isConsequence);
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

interface Situation {
  readonly begin?: (world: World) => Promise<unknown>;
  readonly end?: (world: World) => Promise<unknown>;
  /** Keeps the situation up while the page is read. */
  readonly during?: (world: World) => Promise<unknown>;
  /** Word, level and first sentence of a program's page. */
  readonly page: readonly [ProgramName, RegExp];
  readonly ready: readonly [ProgramName, number, RegExp];
  /** `undefined` if the situation is over before the command ends. */
  readonly status: readonly [exit: number, output: RegExp];
  readonly alerts: readonly string[];
  /** The alerts after 80 minutes, if they are others. */
  readonly laterAlerts?: readonly string[];
}

/** Stops a process for 0.7 s, and reads the page after that. */
async function pauses(one: TestProcess): Promise<void> {
  one.signal('SIGSTOP');
  await pause(700);
  one.signal('SIGCONT');
  await pause(300);
}

const evaluated: { readonly name: string; readonly series: readonly object[]; readonly situation: Situation }[] = [];

/** The series of two readings: counters grow as between both, and gauges stay. */
function seriesOf(first: Reading, second: Reading): object[] {
  const series: object[] = [];
  for (const job of ['gateway', 'consumer'] as const) {
    const labels = `job="ingest-${job}", instance="${job}"`;
    const [before, now] = [first[job], second[job]];
    series.push({ series: `up{${labels}}`, values: `${now === undefined ? 0 : 1}x100` });
    const keyOf = (one: Scrape['samples'][number]): string => one.name + JSON.stringify(one.labels);
    const earlier = new Map(new Scrape(before ?? '').samples.map((one) => [keyOf(one), one.value]));
    for (const one of new Scrape(now ?? '').samples) {
      if (!one.name.startsWith('ingest_') || !Number.isFinite(one.value)) continue;
      const own = Object.entries(one.labels).map(([name, value]) => `, ${name}=${JSON.stringify(value)}`);
      const isCounter = /_(total|count|sum|bucket)$/.test(one.name);
      const grown = isCounter ? one.value - (earlier.get(keyOf(one)) ?? one.value) : 0;
      const perMinute = (grown * 60_000) / (second.atMs - first.atMs);
      series.push({
        series: `${one.name}{${labels}${own.join('')}}`,
        values: `${one.value.toFixed(6)}+${perMinute.toFixed(6)}x100`,
      });
    }
  }
  return series;
}

async function assertSaid(world: World, name: string, situation: Situation): Promise<void> {
  const {
    begin,
    end,
    during,
    page: [program, sentence],
    ready,
    status,
  } = situation;
  world.forget();
  await begin?.(world);
  try {
    const asked = world.status();
    let said = '';
    const isSaid = async (): Promise<boolean> => {
      await during?.(world);
      said = await world.said(program);
      return sentence.test(said);
    };
    await eventually(name, isSaid).catch(() => assert.match(said, sentence));
    const answer = await world.ready(ready[0]);
    assert.equal(answer.status, ready[1], answer.body);
    assert.match(answer.body, ready[2]);
    // The first command may have been too early for a heartbeat that has expired since.
    const results = [await asked];
    if (results[0]?.exit !== status[0]) results.push(await world.status());
    const result = results.at(-1);
    assert.equal(result?.exit, status[0], result?.output ?? '');
    assert.match(result?.output ?? '', status[1]);
    const first = await world.read();
    await (during?.(world) ?? pause(1_000));
    const second = await world.read();
    evaluated.push({ name, series: seriesOf(first, second), situation });
  } finally {
    await end?.(world);
  }
}

const server = ([first]: readonly TestRedis[]): TestRedis => first ?? assert.fail();
const LIVE = /^LIVE good Everything works: [\d.,]+\/s accepted by this gateway, [\d.,]+\/s landed by all consumers\.$/;

const SITUATIONS: Readonly<Record<string, Situation>> = {
  'everything works': {
    page: ['gateway', LIVE],
    ready: ['gateway', 200, /"ready"/],
    status: [0, /heartbeat/],
    alerts: [],
    // Reconcile never runs in this test.
    laterAlerts: ['IngestReconcileStale'],
  },
  'the gateway stands still': {
    during: ({ gateway }) => pauses(gateway),
    page: ['gateway', /^STANDS STILL warn This process stood still for 0\.[67] s: /],
    ready: ['gateway', 200, /"ready"/],
    status: [0, /heartbeat/],
    alerts: ['IngestLatencyHigh', 'IngestProcessStalls'],
  },
  'the only consumer stands still': {
    begin: async ({ consumer }) => consumer.signal('SIGSTOP'),
    end: async ({ consumer }) => consumer.signal('SIGCONT'),
    page: ['gateway', /^NOT LANDING bad No consumer has a heartbeat: .* \d+ events wait, the oldest for \d/],
    ready: ['gateway', 200, /"ready"/],
    status: [6, /events? of ingest waits?, and no consumer has a heartbeat$/],
    alerts: ['IngestNoConsumer', 'IngestNothingLands', 'IngestTargetDown'],
  },
  'Redis stands still': {
    begin: ({ redis }) => server(redis).signal('SIGSTOP'),
    end: ({ redis }) => server(redis).signal('SIGCONT'),
    page: ['gateway', /^REFUSING bad Redis: no answer within \d+ ms\. (?!.*lost).*503/],
    ready: ['gateway', 503, /no answer within/],
    status: [4, /unavailable/],
    alerts: ['IngestQueueUnavailable'],
  },
  'Redis is killed': {
    begin: ({ redis }) => server(redis).signal('SIGKILL'),
    end: ({ redis }) => server(redis).start(),
    page: ['gateway', /^REFUSING bad Redis: connection refused \(127\.0\.0\.1:\d+\)\. (?!.*lost).*503/],
    ready: ['gateway', 503, /ECONNREFUSED/],
    status: [4, /unavailable/],
    alerts: ['IngestQueueUnavailable'],
  },
  'everything works again': {
    page: ['gateway', LIVE],
    ready: ['gateway', 200, /"ready"/],
    status: [0, /heartbeat/],
    alerts: [],
  },
};

/** One consumer runs instead of the wanted three, the machine may be busy, and an outage uses up the error budget. */
const UNSURE = ['IngestReplicasDiffer', 'IngestLatencyHigh', 'IngestProcessStalls'];
const firing = (time: string, alerts: readonly string[]) => ({
  expr: `group by (alertname) (ALERTS{alertstate="firing"} unless ALERTS{alertname="IngestServerErrors", severity="warning"} unless ALERTS{alertname=~"${UNSURE.filter((one) => !alerts.includes(one)).join('|')}"})`,
  eval_time: time,
  exp_samples: alerts.map((alertname) => ({ labels: `{alertname="${alertname}"}`, value: 1 })),
});

describe('what is said while', () => {
  let world: World | undefined;
  for (const [name, situation] of Object.entries(SITUATIONS))
    it(name, async () => assertSaid((world ??= await World.start([await TestRedis.start()])), name, situation));

  it('the gateway drains', async () => {
    assert.ok(world);
    world.gateway.signal('SIGTERM');
    await assertSaid(world, 'the gateway drains', {
      page: ['gateway', /^(?!REFUSING)/],
      ready: ['gateway', 503, /^\{"status":"draining"\}$/],
      status: [0, /heartbeat/],
      alerts: [],
    });
  });

  it('one of two parts is away, and a certificate is near its end', async () => {
    const cert = await pki.authority.issue({ ...LOCALHOST, notAfter: new Date(Date.now() + 2.5 * 86_400_000) });
    const tls = {
      INGEST_TLS_CERT: pki.write('short.pem', cert.certificate),
      INGEST_TLS_KEY: pki.write('short-key.pem', cert.key),
    };
    const redis = [await TestRedis.start(), await TestRedis.start()];
    const parts = await World.start(redis, { ...tls, INGEST_SHED_MS: '5000' });
    await assertSaid(parts, 'a certificate is near its end', {
      page: ['gateway', /^CERTIFICATE EXPIRES warn The TLS file cert expires in 2\.\d days\.$/],
      ready: ['gateway', 200, /^\{"status":"ready"\}$/],
      status: [0, /heartbeat/],
      alerts: ['IngestCertificateExpires'],
    });
    await assertSaid(parts, 'one of two parts is away', {
      begin: () => server(redis.slice(1)).signal('SIGKILL'),
      page: [
        'gateway',
        /^PARTLY DOWN bad Part 1 of the queue is unavailable: Redis: connection refused \(.*\)\. In \d+ seconds, [\d.,]+\/s were accepted, [\d.,]+\/s were shed\.$/,
      ],
      ready: ['gateway', 200, /"ready","unavailable":\[1\]/],
      status: [4, /ingest-b/],
      alerts: ['IngestCertificateExpires', 'IngestPartitionUnavailable', 'IngestServerErrors'],
    });
  });

  it('these alerts fire, and no others', () => {
    const known = evaluated.map(({ name, series, situation: { alerts, laterAlerts } }) => ({
      name,
      interval: '1m',
      input_series: series,
      promql_expr_test: [firing('30m', alerts), ...(laterAlerts ? [firing('80m', laterAlerts)] : [])],
    }));
    const file = join(temporaryFolder(), 'situations.json');
    writeFileSync(
      file,
      JSON.stringify({ rule_files: [join(DEPLOY, 'alerts.yml')], evaluation_interval: '1m', tests: known }),
    );
    const { status, text: output } = ran(tool('promtool', 'prometheus'), ['test', 'rules', file]);
    assert.equal(status, 0, output);
  });
});
