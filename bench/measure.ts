// Runs one measurement: a fresh Redis, a fresh server and one load. A sample with an unexpected answer or a broken
// connection is void: it is reported, but excluded from the medians.
import type { BenchEnvironment, RunningServer } from './bench-environment.ts';
import { runLoad, type LoadKind } from './load/load-process.ts';
import type { LoadOptions, LoadResult } from './load/options.ts';
import { CANONICAL_BODY_BYTES, CANONICAL_CONNECTIONS } from './load/workload.ts';
import { CpuBook, residentBytes } from './process-cost.ts';
import { type Subject, withServer } from './subjects.ts';

/** Omitted members default to the canonical workload. */
export interface Plan {
  readonly label: string;
  readonly subject: Subject;
  readonly load?: LoadKind;
  readonly options?: Partial<Pick<LoadOptions, 'connections' | 'bodyBytes' | 'ratePerS' | 'resume'>>;
  readonly warmupSeconds?: number;
  /** The expected statuses, 202 by default. Rates and costs refer to answers with the first status. */
  readonly expected?: readonly string[];
}

export type Figures = Readonly<Record<string, number>>;

/** `figures` contains the metrics that metrics.ts describes. */
export interface Sample {
  readonly label: string;
  readonly figures: Figures;
  /** The ratios to other labels, measured side by side. */
  readonly ratios?: Readonly<Record<string, Figures>>;
  readonly statuses: Readonly<Record<string, number>>;
  readonly curve: readonly (readonly [number, number])[];
  readonly notes: readonly string[];
  readonly void?: string;
}

export interface Run {
  readonly label: string;
  execute(): Promise<Sample>;
}

/** Runs several servers side by side and returns one sample for each label. */
export interface JointRun {
  readonly labels: readonly string[];
  execute(): Promise<readonly Sample[]>;
}

export interface Duration {
  readonly seconds: number;
  readonly warmupSeconds: number;
}

export function measure(environment: BenchEnvironment, plan: Plan, duration: Duration): Promise<Sample> {
  return withServer(environment, plan.subject, (server, redis) =>
    underLoad(environment, plan, duration, redis, server),
  );
}

async function underLoad(
  environment: BenchEnvironment,
  plan: Plan,
  duration: Duration,
  redis: RunningServer,
  server: RunningServer,
): Promise<Sample> {
  let before = new CpuBook();
  let after = before;
  let residentWarm = 0;
  let residentDone = 0;
  const result = await runLoad(
    plan.load ?? 'raw-client.ts',
    environment.certificates,
    {
      port: server.port,
      connections: CANONICAL_CONNECTIONS,
      bodyBytes: CANONICAL_BODY_BYTES,
      durationMs: duration.seconds * 1000,
      warmupMs: (plan.warmupSeconds ?? duration.warmupSeconds) * 1000,
      ...plan.options,
    },
    {
      warm: () => {
        residentWarm = residentBytes(server.pid);
        before = new CpuBook();
      },
      done: () => {
        after = new CpuBook();
        residentDone = residentBytes(server.pid);
      },
    },
  );
  const expected = plan.expected ?? ['202'];
  const counted = result.statuses[expected[0] ?? ''] ?? 0;
  const perEvent = (pid: number): number => ((after.seconds(pid) - before.seconds(pid)) / counted) * 1e6;
  const reason = voidReason(result, expected, counted);
  const [serverUs, redisUs] = [perEvent(server.pid), perEvent(redis.pid)];
  return {
    label: plan.label,
    figures: {
      ratePerS: (counted / result.elapsedMs) * 1000,
      p50Ms: result.latency.p50,
      p99Ms: result.latency.p99,
      serverUs,
      redisUs,
      totalUs: serverUs + redisUs,
      residentGrowth: residentDone / residentWarm,
      foreignShare: after.foreignShare(before, process.pid),
      ...offeredFigures(result, plan.options?.ratePerS),
      ...refusedFigures(result),
    },
    statuses: result.statuses,
    curve: result.curve,
    notes: result.notes,
    ...(reason === undefined ? {} : { void: reason }),
  };
}

function voidReason(result: LoadResult, expected: readonly string[], counted: number): string | undefined {
  const others = Object.entries(result.statuses).filter(([status]) => !expected.includes(status));
  if (others.length > 0) {
    return others
      .map(([status, count]) => (status === '0' ? `${count} broken connections` : `${count} answers ${status}`))
      .join(', ');
  }
  if (result.unretryable > 0) return `${result.unretryable} answers 503 without "retryable":true`;
  return counted === 0 ? `no answer ${expected[0]}` : undefined;
}

function offeredFigures({ offered, elapsedMs }: LoadResult, plannedPerS: number | undefined): Figures {
  return plannedPerS === undefined ? {} : { offeredShare: ((offered / elapsedMs) * 1000) / plannedPerS };
}

function refusedFigures({ statuses, offered }: LoadResult): Figures {
  if (offered === 0) return {};
  const answered = Object.values(statuses).reduce((sum, count) => sum + count, 0);
  return { answeredShare: answered / offered, refusedShare: (statuses['503'] ?? 0) / Math.max(1, answered) };
}
