// The CPU time of every process on the way of an event: gateway, Redis, consumers and PostgreSQL; and how long landing
// takes. With BENCH_BASE=<commit>, the programs of that commit run too, in alternation.
import { mkdtempSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { Scrape } from '../../test/support/scrape.ts';
import { startPrivatePostgres } from '../../test/support/postgres.ts';
import type { BenchCase } from '../bench-case.ts';
import type { Bench } from '../bench.ts';
import { checkOut, ROOT, type RunningServer } from '../bench-environment.ts';
import { clientOptions, runLoad, runOf, voidReason, type Figures, type Sample } from '../measure.ts';
import { CpuBook } from '../process-cost.ts';
import { redisMemory } from '../queue-filling.ts';

const BASE = process.env['BENCH_BASE'];
const SETUPS = [1, 3].flatMap((consumers) => [200, 1_000, 5_000].map((ratePerS) => ({ consumers, ratePerS })));
const DURATION = { warmupSeconds: 3, seconds: 5 };
/** Once the load has ended, the consumers land what is left within this time. */
const SETTLE_MS = 300;

type Setup = (typeof SETUPS)[number] & { readonly label: string; readonly root: string };

const titleOf = ({ consumers, ratePerS }: (typeof SETUPS)[number]): string =>
  `${ratePerS.toLocaleString('en-US')}/s, ${consumers === 1 ? 'SQLite' : `PostgreSQL and ${consumers} consumers`}`;

export const whole: BenchCase = {
  name: 'whole',
  aim: 'CPU time per event of gateway (server), Redis, consumers and PostgreSQL, and the time until an event lands.',
  roundsMax: 3,
  comparisons: SETUPS.flatMap((setup) => {
    const of = titleOf(setup);
    const atMost = setup.consumers === 1 ? 0.8 : 1;
    const goals = setup.ratePerS === 1_000;
    return [
      { metric: 'restShare', of, ...(goals ? { limit: { atMost } } : {}) } as const,
      ...(goals ? [{ metric: 'p50Ms', of, limit: { atMost: 40 } } as const] : []),
      ...(goals ? [{ metric: 'p99Ms', of, limit: { atMost: 120 } } as const] : []),
      ...(BASE === undefined ? [] : [{ metric: 'totalUs', of, against: `base, ${of}` } as const]),
    ];
  }),
  runs: (bench) => {
    const base = BASE === undefined ? undefined : checkOut(BASE);
    const setups = SETUPS.flatMap((setup): Setup[] => {
      const label = titleOf(setup);
      const own = { ...setup, label, root: ROOT };
      return base === undefined ? [own] : [own, { ...setup, label: `base, ${label}`, root: base }];
    });
    return setups.map((setup) => runOf(setup.label, () => run(bench, setup)));
  },
};

async function run({ environment }: Bench, { label, root, consumers, ratePerS }: Setup): Promise<Sample> {
  const folder = mkdtempSync(join(environment.folder, 'warehouse-'));
  const postgres = consumers === 1 ? undefined : await startPrivatePostgres({ durable: true });
  const started: { stop(): Promise<void> }[] = postgres === undefined ? [] : [postgres];
  const start = async <T extends { stop(): Promise<void> }>(starting: Promise<T>): Promise<T> => {
    const server = await starting;
    started.unshift(server);
    return server;
  };
  try {
    const warehouse = (await postgres?.freshDatabase()) ?? `sqlite:${join(folder, 'events.db')}`;
    const redis = await start(environment.redis());
    const gateway = await start(environment.gateway(redis, root));
    const replicas: RunningServer[] = [];
    while (replicas.length < consumers) replicas.push(await start(environment.consumer(redis, warehouse, root)));
    const parts = { serverUs: [gateway.pid], redisUs: [redis.pid], consumersUs: replicas.map(({ pid }) => pid) };
    const books: CpuBook[] = [];
    const scrapes: Promise<Scrape[]>[] = [];
    const rows = async (): Promise<number> => {
      const size = `SELECT pg_database_size(current_database())::int AS bytes`;
      return (await postgres?.query<{ bytes: number }>(warehouse, size))?.[0]?.bytes ?? folderBytes(folder);
    };
    const sizesNow = async () => ({
      log: [gateway, ...replicas].reduce((sum, { printed }) => sum + printed(), 0),
      disk: folderBytes(redis.folder ?? '') + (await rows()),
      memory: await redisMemory(redis),
    });
    type Sizes = Awaited<ReturnType<typeof sizesNow>>;
    const sizes: Promise<Sizes>[] = [];
    const mark = (): void => {
      books.push(new CpuBook());
      scrapes.push(Promise.all(replicas.map(scraped)));
      sizes.push(sizesNow());
    };
    const options = clientOptions(environment, gateway, { ratePerS }, DURATION);
    const result = await runLoad('paced.ts', options, { warm: mark, done: mark });
    await wait(SETTLE_MS);
    const [before, after] = books as [CpuBook, CpuBook];
    const events = result.statuses['202'] ?? 0;
    const each = (pids: readonly number[]): number =>
      (pids.reduce((sum, pid) => sum + after.seconds(pid) - before.seconds(pid), 0) / events) * 1e6;
    const costs = Object.fromEntries(Object.entries(parts).map(([name, pids]) => [name, each(pids)]));
    const warehouseUs = each(postgres?.processes().slice(0, 1) ?? []);
    const totalUs = Object.values(costs).reduce((sum, one) => sum + one, warehouseUs);
    const [delaysBefore, delaysAfter] = (await Promise.all(scrapes)) as [Scrape[], Scrape[]];
    const [small, large] = (await Promise.all(sizes)) as [Sizes, Sizes];
    const delayMs = (share: number): number => 1_000 * landingDelay(delaysBefore, delaysAfter, share);
    const figures: Figures = {
      ratePerS: (events / result.elapsedMs) * 1_000,
      ...costs,
      ...(postgres === undefined ? {} : { warehouseUs }),
      totalUs,
      restShare: (totalUs - (costs['serverUs'] ?? 0)) / (costs['serverUs'] ?? 0),
      p50Ms: delayMs(0.5),
      p99Ms: delayMs(0.99),
      logBytes: ((large.log - small.log) / events) * 1e6,
      bytesEach: (large.memory - small.memory) / events,
      diskBytesEach: (large.disk - small.disk) / events,
      offeredShare: result.offered / (result.elapsedMs / 1_000) / ratePerS,
      foreignShare: after.foreignShare(before, process.pid),
    };
    const reason = voidReason(result, ['202'], events);
    const sample = { label, figures, statuses: result.statuses };
    return reason === undefined ? sample : { ...sample, void: reason };
  } finally {
    for (const server of started) await server.stop();
  }
}

const scraped = async ({ port }: RunningServer): Promise<Scrape> =>
  new Scrape(await (await fetch(`http://127.0.0.1:${port}/metrics`)).text());

/** Interpolates within the bucket that contains the quantile, as Prometheus does. */
function landingDelay(before: readonly Scrape[], after: readonly Scrape[], share: number): number {
  const name = 'ingest_landing_delay_seconds_bucket';
  const sum = (scrapes: readonly Scrape[], le: string): number =>
    scrapes.reduce((total, scrape) => total + scrape.sum(name, { le }), 0);
  const bounds = after[0]?.samples.flatMap((sample) => (sample.name === name ? (sample.labels['le'] ?? '') : [])) ?? [];
  const counts = bounds.map((le) => sum(after, le) - sum(before, le));
  const wanted = share * (counts.at(-1) ?? 0);
  const at = counts.findIndex((count) => count >= wanted);
  const [low, high] = [Number(bounds[at - 1] ?? 0), Number(bounds[at])];
  const below = counts[at - 1] ?? 0;
  return low + ((high - low) * (wanted - below)) / ((counts[at] ?? 0) - below);
}

const folderBytes = (folder: string): number =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
