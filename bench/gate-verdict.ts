// Decides the verdict of the gate.
//
// worse: a request failed or p99 exceeded the limit on a quiet machine, or a ratio exceeds its budget.
// too noisy: other processes used the CPU, or a ratio's interval is wide and contains the budget.
// pass: all other results.
//
// A ratio with a wide interval is judged by the interval; all other ratios are judged by the median.
import { PIPELINED_MAX } from './cases/pipelining.ts';
import { NOISE_MAX, noise, spread, type Spread } from './statistics.ts';

/** Up to this share of CPU time used by other processes, a failure or a late answer is the gateway's fault. */
export const FOREIGN_SHARE_MAX = 0.2;

/**
 * Up to this share of CPU time used by other processes, a round's costs are valid. Ratios tolerate more noise than
 * latencies do, but servers that are starved of CPU time batch differently.
 */
export const FOREIGN_SHARE_ROUND_MAX = 0.4;

const ROUNDS_MIN = 3;

/** The ratios of CPU time per event from one round at saturation. */
export interface CostRound {
  readonly gatewayToPeer: number;
  readonly redisToPeer: number;
  /** 16 requests in flight on each of 8 connections, relative to one on each of 50. */
  readonly pipelinedToPlain: number;
  /** Relative to the gateway of the base commit and to its Redis. */
  readonly gatewayToBase?: number;
  readonly redisToBase?: number;
  /** JavaScript heap that the gateway allocates per event, in bytes, and relative to the base commit. */
  readonly heapBytes: number;
  readonly heapToBase?: number;
  readonly foreignShare: number;
}

/** One run at the fixed rate, followed or preceded by one of the base commit's gateway. */
export interface LatencyRun {
  readonly p99Ms: number;
  readonly baseP99Ms?: number;
  readonly failure: string | undefined;
  readonly foreignShare: number;
}

/**
 * The contents of bench/budget.json. Each figure is at most 8 % above the median that was measured on `measured`.
 * Lower the budget after a change that makes the hot path cheaper.
 */
export interface Budget {
  /** The date of the measurement. */
  readonly measured: string;
  readonly gatewayToPeer: number;
  readonly redisToPeer: number;
  readonly heapBytes: number;
  /** Intended increases above STEP_MAX, as ratios to the previous commit. */
  readonly steps: readonly Step[];
}

export interface Step {
  /** The hash of the commit before the change, or a prefix of the hash. */
  readonly since: string;
  readonly gateway: number;
  readonly redis: number;
  readonly heap?: number;
  readonly reason: string;
}

/**
 * The largest increase that a change may cause unrecorded. Without this limit, several small increases would each
 * pass.
 */
const STEP_MAX = 1.04;
/** The same for the heap that an event allocates. */
const HEAP_STEP_MAX = 1.1;
/** Rounds that differ more have no verdict on a step: a Redis with the same commands once seemed 1.05 times worse. */
const STEP_NOISE_MAX = 0.02;
/** p99 may be this many times that of the base commit. A smaller difference than P99_DIFFERENCE_MS is no verdict. */
const P99_STEP_MAX = 1.5;
const P99_DIFFERENCE_MS = 3;
const LATENCY_PAIRS = 3;

export interface GateVerdict {
  readonly outcome: 'pass' | 'worse' | 'too noisy';
  readonly lines: readonly string[];
}

export function gateVerdict(
  costs: readonly CostRound[],
  latencies: readonly LatencyRun[],
  budget: Budget,
  p99MaxMs: number,
  base?: string,
): GateVerdict {
  const quiet = costs.filter(({ foreignShare }) => foreignShare <= FOREIGN_SHARE_ROUND_MAX);
  const step = budget.steps.find(({ since }) => base?.startsWith(since) === true);
  const ratio = (name: string, figure: keyof CostRound, limit: number, unit = 'times its CPU per event'): Check => {
    const samples = quiet.flatMap((round) => round[figure] ?? []);
    return ratioCheck(name, samples, limit, figure.endsWith('ToBase') ? STEP_NOISE_MAX : NOISE_MAX, unit);
  };
  const before = base?.slice(0, 10);
  const checks = [
    latencyCheck(latencies, p99MaxMs),
    ratio('gateway / Fastify', 'gatewayToPeer', budget.gatewayToPeer),
    ratio('Redis / plain XADD', 'redisToPeer', budget.redisToPeer),
    ratio('gateway with 16 requests on a connection / with one', 'pipelinedToPlain', PIPELINED_MAX),
    ratio('gateway', 'heapBytes', budget.heapBytes, 'bytes of heap per event'),
    ...(before === undefined
      ? []
      : [
          ratio(`gateway / ${before}`, 'gatewayToBase', step?.gateway ?? STEP_MAX),
          ratio(`its Redis / ${before}`, 'redisToBase', step?.redis ?? STEP_MAX),
          ratio(`gateway / ${before}`, 'heapToBase', step?.heap ?? HEAP_STEP_MAX, 'times its heap per event'),
          latencyStep(latencies, before),
        ]),
  ];
  const outcomes = checks.map(({ outcome }) => outcome);
  return {
    outcome: outcomes.includes('worse') ? 'worse' : outcomes.includes('too noisy') ? 'too noisy' : 'pass',
    lines: checks.map(({ outcome, line }) => `${line}: ${outcome}`),
  };
}

interface Check {
  readonly outcome: GateVerdict['outcome'];
  readonly line: string;
}

/**
 * One good run is enough to pass, because noise never makes an answer earlier. One bad run on a quiet machine is
 * enough to fail.
 */
function latencyCheck(runs: readonly LatencyRun[], p99MaxMs: number): Check {
  const bad = (run: LatencyRun): boolean => run.failure !== undefined || !(run.p99Ms < p99MaxMs);
  const told = ({ p99Ms, failure, foreignShare }: LatencyRun): string =>
    `p99 at the fixed rate ${p99Ms.toFixed(1)} ms of ${p99MaxMs} ms${failure === undefined ? '' : `, ${failure}`}, ` +
    `other processes at ${Math.round(foreignShare * 100)} % of the CPU`;
  const convicting = runs.find((run) => bad(run) && run.foreignShare <= FOREIGN_SHARE_MAX);
  if (convicting !== undefined) return { outcome: 'worse', line: told(convicting) };
  const good = runs.find((run) => !bad(run));
  if (good !== undefined) return { outcome: 'pass', line: told(good) };
  const last = runs.at(-1);
  return { outcome: 'too noisy', line: last === undefined ? 'no run at the fixed rate' : told(last) };
}

/** Noise never makes an answer earlier, so the best run of each side is compared. */
function latencyStep(runs: readonly LatencyRun[], base: string): Check {
  const pairs = runs.flatMap(({ p99Ms, baseP99Ms, foreignShare }) =>
    baseP99Ms === undefined || foreignShare > FOREIGN_SHARE_MAX ? [] : { p99Ms, baseP99Ms },
  );
  const name = `p99 at the fixed rate / ${base}`;
  if (pairs.length < LATENCY_PAIRS)
    return {
      outcome: 'too noisy',
      line: `${name}: ${pairs.length} of at least ${LATENCY_PAIRS} pairs were undisturbed`,
    };
  const best = Math.min(...pairs.map(({ p99Ms }) => p99Ms));
  const bestBase = Math.min(...pairs.map(({ baseP99Ms }) => baseP99Ms));
  const isWorse = best > P99_STEP_MAX * bestBase && best - bestBase >= P99_DIFFERENCE_MS;
  const told = pairs.map(({ p99Ms, baseP99Ms }) => `${p99Ms.toFixed(0)} / ${baseP99Ms.toFixed(0)} ms`).join(', ');
  const line = `${name}: ${told}; the best ones may differ by ${P99_STEP_MAX} times or ${P99_DIFFERENCE_MS} ms`;
  return { outcome: isWorse ? 'worse' : 'pass', line };
}

function ratioCheck(name: string, samples: readonly number[], budget: number, noiseMax: number, unit: string): Check {
  const ratio = spread(samples);
  if (ratio.count < ROUNDS_MIN)
    return { outcome: 'too noisy', line: `${name}: ${ratio.count} of at least ${ROUNDS_MIN} rounds were undisturbed` };
  const written = (value: number): string => (budget > 100 ? value.toFixed(0) : value.toFixed(2));
  const line =
    `${name}: ${written(ratio.median)} (${written(ratio.low)} to ${written(ratio.high)}) ${unit}, ` +
    `budget ${written(budget)}`;
  return { outcome: ratioOutcome(ratio, budget, noiseMax), line };
}

function ratioOutcome(ratio: Spread, budget: number, noiseMax: number): Check['outcome'] {
  if (ratio.high <= budget) return 'pass';
  if (ratio.low > budget) return 'worse';
  if (noise(ratio) > noiseMax) return 'too noisy';
  return ratio.median <= budget ? 'pass' : 'worse';
}
