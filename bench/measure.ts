// Runs one measurement: a fresh Redis, a fresh server and one load. A sample with an unexpected answer or a broken
// connection is void: it is reported, but excluded from the medians.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { NODE, ROOT, type BenchEnvironment, type RunningServer } from './bench-environment.ts';
import type { HeapReport } from './load/heap-report.ts';
import type { LoadOptions, LoadResult } from './load/options.ts';
import { CANONICAL_BODY_BYTES, CANONICAL_CONNECTIONS } from './load/workload.ts';
import type { Marks } from './load/tally.ts';
import { costFigures, CpuBook, residentBytes } from './process-cost.ts';
import { type Subject, withServer } from './subjects.ts';

type LoadKind = 'closed-loop.ts' | 'paced.ts';

/** Omitted members default to the canonical workload. */
export interface Plan {
  readonly label: string;
  readonly subject: Subject;
  readonly options?: Partial<Pick<LoadOptions, 'connections' | 'bodyBytes' | 'ratePerS'>>;
  readonly warmupSeconds?: number;
  /** The expected statuses, 202 by default. Rates and costs refer to answers with the first status. */
  readonly expected?: readonly string[];
}

export type Figures = Readonly<Record<string, number>>;

/** `figures` contains the metrics that metrics.ts describes. */
export interface Sample {
  readonly label: string;
  readonly figures: Figures;
  /** Ratios to other labels that were measured side by side with this one. */
  readonly ratios?: Readonly<Record<string, Figures>>;
  readonly statuses: Readonly<Record<string, number>>;
  readonly void?: string;
}

/** Returns one sample for each label. A run of several labels puts their servers under load side by side. */
export interface Run {
  readonly labels: readonly string[];
  execute(): Promise<readonly Sample[]>;
}

export const runOf = (label: string, execute: () => Promise<Sample>): Run => ({
  labels: [label],
  execute: async () => [await execute()],
});

export interface Duration {
  readonly seconds: number;
  readonly warmupSeconds: number;
}

export function measure(environment: BenchEnvironment, plan: Plan, duration: Duration): Promise<Sample> {
  return withServer(environment, plan.subject, (server, redis) =>
    underLoad(environment, plan, duration, redis, server),
  );
}

/** Puts a running server under load. */
export async function underLoad(
  environment: BenchEnvironment,
  plan: Omit<Plan, 'subject'>,
  duration: Duration,
  redis: RunningServer,
  server: RunningServer,
): Promise<Sample> {
  let before = new CpuBook();
  let after = before;
  let residentWarm = 0;
  let residentDone = 0;
  const heap: (Promise<HeapReport> | undefined)[] = [];
  const result = await runLoad(
    'paced.ts',
    clientOptions(environment, server, plan.options, {
      ...duration,
      warmupSeconds: plan.warmupSeconds ?? duration.warmupSeconds,
    }),
    {
      warm: () => {
        residentWarm = residentBytes(server.pid);
        heap.push(server.heapReport?.());
        before = new CpuBook();
      },
      done: () => {
        after = new CpuBook();
        heap.push(server.heapReport?.());
        residentDone = residentBytes(server.pid);
      },
    },
  );
  const expected = plan.expected ?? ['202'];
  const counted = result.statuses[expected[0] ?? ''] ?? 0;
  const reason = voidReason(result, expected, counted);
  return {
    label: plan.label,
    figures: {
      ratePerS: (counted / result.elapsedMs) * 1000,
      p50Ms: result.latency.p50,
      p99Ms: result.latency.p99,
      ...costFigures(before, after, server.pid, redis.pid, counted),
      residentGrowth: residentDone / residentWarm,
      ...collectionFigures(await heap[0], await heap[1], result.elapsedMs),
      ...openLoopFigures(result, plan.options?.ratePerS),
    },
    statuses: result.statuses,
    ...(reason === undefined ? {} : { void: reason }),
  };
}

function collectionFigures(before: HeapReport | undefined, after: HeapReport | undefined, elapsedMs: number): Figures {
  if (before === undefined || after === undefined) return {};
  const perMinute = (kind: 'youngCollections' | 'fullCollections'): number =>
    (after[kind] - before[kind]) / (elapsedMs / 60_000);
  return { youngCollections: perMinute('youngCollections'), fullCollections: perMinute('fullCollections') };
}

export function progress(step: string): void {
  const seconds = Math.round(performance.now() / 1000);
  process.stderr.write(`${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')} ${step}\n`);
}

/** Defaults to the canonical workload. */
export const clientOptions = (
  environment: BenchEnvironment,
  server: RunningServer,
  options: Plan['options'],
  { seconds, warmupSeconds }: Duration,
): LoadOptions => ({
  ...environment.certificates.client,
  port: server.port,
  connections: CANONICAL_CONNECTIONS,
  bodyBytes: CANONICAL_BODY_BYTES,
  durationMs: seconds * 1000,
  warmupMs: warmupSeconds * 1000,
  ...options,
});

/** Runs a load generator in its own process. Calls `marks` at the start and the end of the measured part. */
export function runLoad(kind: LoadKind, options: LoadOptions, marks: Marks): Promise<LoadResult> {
  return new Promise((resolve, reject) => {
    const load = ['--disable-warning=ExperimentalWarning', join(ROOT, 'bench/load', kind), JSON.stringify(options)];
    const child = spawn(NODE, load, { stdio: ['ignore', 'pipe', 'pipe'] });
    const limit = setTimeout(() => child.kill('SIGKILL'), options.warmupMs + options.durationMs + 60_000);
    let output = '';
    const complaints: string[] = [];
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => (output += chunk));
    createInterface({ input: child.stderr }).on('line', (line) => {
      if (line === 'warm') marks.warm();
      else if (line === 'done') marks.done();
      else complaints.push(line);
    });
    child.once('error', reject);
    child.once('close', (code) => {
      clearTimeout(limit);
      if (code === 0) resolve(JSON.parse(output) as LoadResult);
      else reject(new Error(`the load generator ended with ${code}: ${complaints.join('\n')}`));
    });
  });
}

export function voidReason(result: LoadResult, expected: readonly string[], counted: number): string | undefined {
  const others = Object.entries(result.statuses).filter(([status]) => !expected.includes(status));
  if (others.length > 0) {
    return others
      .map(([status, count]) => (status === '0' ? `${count} broken connections` : `${count} answers ${status}`))
      .join(', ');
  }
  return counted === 0 ? `no answer ${expected[0]}` : undefined;
}

export function openLoopFigures(
  { statuses, offered, elapsedMs }: LoadResult,
  plannedPerS: number | undefined,
): Figures {
  if (plannedPerS === undefined) return {};
  const answered = Object.values(statuses).reduce((sum, count) => sum + count, 0);
  return {
    offeredShare: ((offered / elapsedMs) * 1000) / plannedPerS,
    answeredShare: answered / offered,
    refusedShare: (statuses['503'] ?? 0) / Math.max(1, answered),
  };
}
