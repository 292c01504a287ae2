// Decides the verdict of the gate.
//
// worse: the gateway was late or failed a request while the control, an empty node:https server under the same load at
// the same time, did neither; or a ratio exceeds its budget.
// no verdict: the control was late, too, or a ratio's interval is wide and contains the budget.
// pass: all other results.
//
// A ratio with a wide interval is judged by the interval; all other ratios are judged by the median.
import type { AtRate, Lane } from './at-rate.ts';
import { PIPELINED_MAX } from './cases/pipelining.ts';
import { NOISE_MAX, noise, OFFERED_MIN, spread, type Spread } from './statistics.ts';

/**
 * Up to this share of CPU time used by other processes, a round's costs are valid. Servers that are starved of CPU time
 * batch differently.
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

/** One run of the gateway, the control and the base commit's gateway at the same time. */
export interface RateRun {
  readonly gateway: Lane;
  readonly control: Lane;
  readonly base?: Lane;
  readonly foreignShare: number;
}

export const rateRun = ({ lanes: [gateway, control, base], foreignShare }: AtRate): RateRun => {
  if (gateway === undefined || control === undefined) throw new Error('expected a gateway and a control');
  return { gateway, control, ...(base !== undefined && { base }), foreignShare };
};

/** A round at saturation that ended early, because an answer was not 202 or a connection broke. */
export interface CostFailure {
  readonly cause: string;
  /** The run at the fixed rate of the same minute. */
  readonly run: RateRun;
}

/**
 * The contents of bench/budget.json. Each cost is at most 8 % above the median that was measured on `measured`. Lower
 * the budget after a change that makes the hot path cheaper.
 */
export interface Budget {
  /** The date of the measurement. */
  readonly measured: string;
  /** The limit in rule 8 of openapi/rules.md. */
  readonly p99Ms: number;
  /** Events per second at full speed, relative to the control. */
  readonly fullSpeedToControl: number;
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
  /** The gateway and its Redis at RATE_PER_S. */
  readonly ordinary?: number;
  readonly heap?: number;
  readonly reason: string;
}

/**
 * The largest increase that a change may cause unrecorded. Without this limit, several small increases would each
 * pass.
 */
const STEP_MAX = 1.04;
/** The same at the fixed rate, at which a collection more or less is 2 % of a run's CPU time. */
const ORDINARY_STEP_MAX = 1.08;
/** The same for the heap that an event allocates. */
const HEAP_STEP_MAX = 1.1;
/** Rounds that differ more have no verdict on a step: a Redis with the same commands once seemed 1.05 times worse. */
const STEP_NOISE_MAX = 0.02;
/** p99 may be this many times that of the base commit. A smaller difference than P99_DIFFERENCE_MS is no verdict. */
const P99_STEP_MAX = 1.5;
const P99_DIFFERENCE_MS = 3;
/** Two latencies are compared only if the machine did not delay the control by more. */
const P99_CALM_MS = 25;
const LATENCY_PAIRS = 3;

export type Outcome = 'pass' | 'worse' | 'no verdict';

/** The exit code and the last line of the gate. */
export const ENDS: Readonly<Record<Outcome, { readonly code: number; readonly words: string }>> = {
  pass: { code: 0, words: 'pass' },
  worse: { code: 1, words: 'worse' },
  'no verdict': { code: 3, words: 'no verdict: this machine was too busy to tell' },
};

export interface GateVerdict {
  readonly outcome: Outcome;
  readonly lines: readonly string[];
}

interface Check {
  readonly outcome: Outcome;
  readonly line: string;
}

/** Everything that the gate measured. */
export interface Measured {
  readonly costs: readonly CostRound[];
  readonly failures: readonly CostFailure[];
  readonly runs: readonly RateRun[];
}

export function gateVerdict({ costs, failures, runs }: Measured, budget: Budget, base?: string): GateVerdict {
  const quiet = costs.filter(({ foreignShare }) => foreignShare <= FOREIGN_SHARE_ROUND_MAX);
  const step = budget.steps.find(({ since }) => base?.startsWith(since) === true);
  const ratio = (name: string, figure: keyof CostRound, limit: number, unit = 'times its CPU per event'): Check => {
    const samples = quiet.flatMap((round) => round[figure] ?? []);
    return ratioCheck(name, samples, limit, figure.endsWith('ToBase') ? STEP_NOISE_MAX : NOISE_MAX, unit);
  };
  const before = base?.slice(0, 10);
  return verdictOf([
    latencyCheck(runs, budget.p99Ms),
    fullSpeedCheck(runs, budget.fullSpeedToControl),
    saturationCheck(failures, budget.p99Ms),
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
          ordinaryStep(runs, before, step?.ordinary ?? ORDINARY_STEP_MAX),
          latencyStep(runs, before),
        ]),
  ]);
}

function verdictOf(checks: readonly Check[]): GateVerdict {
  const outcomes = checks.map(({ outcome }) => outcome);
  return {
    outcome: outcomes.includes('worse') ? 'worse' : outcomes.includes('no verdict') ? 'no verdict' : 'pass',
    lines: checks.map(({ outcome, line }) => `${line}: ${outcome}`),
  };
}

const isBad = ({ failure, p99Ms }: Lane, limitMs: number): boolean => failure !== undefined || !(p99Ms < limitMs);

const isVoid = ({ gateway, control }: RateRun): boolean =>
  Math.min(gateway.offeredShare, control.offeredShare) < OFFERED_MIN;

/**
 * The control decides whether the gateway or the machine was slow. If each answer of the control took less than half of
 * the limit, the machine did not stand still, and one bad run is enough. Otherwise the machine may have disturbed the
 * gateway and its Redis more than the control, so at least two runs and most of them must be bad, and the base commit's
 * gateway good or much less late.
 */
export function latencyCheck(runs: readonly RateRun[], limitMs: number): Check {
  const valid = runs.filter((run) => !isVoid(run));
  const about = (run: RateRun | undefined): string =>
    run === undefined
      ? `${runs.length} runs at the fixed rate, of which none offered ${100 * OFFERED_MIN} % of the load`
      : `p99 at the fixed rate ${laneText(run.gateway)} of ${limitMs} ms, control ${laneText(run.control)}, ` +
        `other processes at ${Math.round(run.foreignShare * 100)} % of the CPU`;
  const bad = valid.filter(({ gateway, control }) => isBad(gateway, limitMs) && !isBad(control, limitMs));
  const certain = bad.find(({ control }) => control.slowestMs < limitMs / 2);
  if (certain !== undefined) return { outcome: 'worse', line: about(certain) };
  const likely = bad.filter(
    ({ gateway, base }) => base === undefined || !isBad(base, limitMs) || base.p99Ms < gateway.p99Ms / 2,
  );
  const good = valid.filter(({ gateway }) => !isBad(gateway, limitMs));
  if (likely.length >= 2 && likely.length > good.length) return { outcome: 'worse', line: about(likely[0]) };
  if (good.length > likely.length) return { outcome: 'pass', line: about(good[0]) };
  return { outcome: 'no verdict', line: about(valid.at(-1)) };
}

const laneText = ({ p99Ms, failure }: Lane): string =>
  `${p99Ms.toFixed(1)} ms${failure === undefined ? '' : ` and ${failure}`}`;

/** The servers compete for the CPU, so a single round says little. Worse only if all rounds are below the limit. */
function fullSpeedCheck(runs: readonly RateRun[], limit: number): Check {
  const ratios = runs.map(({ gateway, control }) => gateway.fullSpeedPerS / control.fullSpeedPerS);
  const line = `events/s at full speed / control: ${ratios.map((one) => one.toFixed(2)).join(', ')}, at least ${limit}`;
  if (ratios.some((one) => one >= limit)) return { outcome: 'pass', line };
  return { outcome: ratios.length < ROUNDS_MIN ? 'no verdict' : 'worse', line };
}

/** A round in which the machine disturbed the control says nothing, and a single failure may be chance. */
function saturationCheck(failures: readonly CostFailure[], limitMs: number): Check {
  const own = failures.filter(
    ({ cause, run }) => !/\b(?:fastify|base): /.test(cause) && !isBad(run.control, limitMs / 2),
  );
  const line = `rounds at saturation that ended early: ${failures.map(({ cause }) => cause).join(', ') || 'none'}`;
  return { outcome: own.length >= 2 ? 'worse' : 'pass', line };
}

function ordinaryStep(runs: readonly RateRun[], base: string, limit: number): Check {
  const samples = runs.flatMap(({ gateway, base: other, foreignShare }) =>
    other === undefined || foreignShare > FOREIGN_SHARE_ROUND_MAX ? [] : gateway.totalUs / other.totalUs,
  );
  const name = `gateway and its Redis at the fixed rate / ${base}`;
  return ratioCheck(name, samples, limit, STEP_NOISE_MAX, 'times its CPU per event');
}

/** Noise never makes an answer earlier, so the best run of each side is compared. */
function latencyStep(runs: readonly RateRun[], base: string): Check {
  const pairs = runs.flatMap((run) =>
    run.base === undefined || isVoid(run) || run.control.p99Ms > P99_CALM_MS
      ? []
      : { p99Ms: run.gateway.p99Ms, baseP99Ms: run.base.p99Ms },
  );
  const name = `p99 at the fixed rate / ${base}`;
  if (pairs.length < LATENCY_PAIRS)
    return {
      outcome: 'no verdict',
      line: `${name}: ${pairs.length} of at least ${LATENCY_PAIRS} pairs were undisturbed`,
    };
  const best = Math.min(...pairs.map(({ p99Ms }) => p99Ms));
  const bestBase = Math.min(...pairs.map(({ baseP99Ms }) => baseP99Ms));
  const isWorse = best > P99_STEP_MAX * bestBase && best - bestBase >= P99_DIFFERENCE_MS;
  const text = pairs.map(({ p99Ms, baseP99Ms }) => `${p99Ms.toFixed(1)} / ${baseP99Ms.toFixed(1)} ms`).join(', ');
  const line = `${name}: ${text}; the best ones may differ by ${P99_STEP_MAX} times or ${P99_DIFFERENCE_MS} ms`;
  return { outcome: isWorse ? 'worse' : 'pass', line };
}

function ratioCheck(name: string, samples: readonly number[], budget: number, noiseMax: number, unit: string): Check {
  const ratio = spread(samples);
  if (ratio.count < ROUNDS_MIN)
    return { outcome: 'no verdict', line: `${name}: ${ratio.count} of at least ${ROUNDS_MIN} rounds were undisturbed` };
  const written = (value: number): string => (budget > 100 ? value.toFixed(0) : value.toFixed(2));
  const line =
    `${name}: ${written(ratio.median)} (${written(ratio.low)} to ${written(ratio.high)}) ${unit}, ` +
    `budget ${written(budget)}`;
  return { outcome: ratioOutcome(ratio, budget, noiseMax), line };
}

function ratioOutcome(ratio: Spread, budget: number, noiseMax: number): Outcome {
  if (ratio.high <= budget) return 'pass';
  if (ratio.low > budget) return 'worse';
  if (noise(ratio) > noiseMax) return 'no verdict';
  return ratio.median <= budget ? 'pass' : 'worse';
}
