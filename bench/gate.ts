// `make bench-gate`: holds a change to the latency target and to the CPU budget. Exit code 0 passed, 1 worse, 3 no
// verdict, if the machine was too busy to tell after all retries. gate-verdict.ts decides.
//
// What it measures, fresh processes each time: the canonical workload at a fixed rate in an open loop, and the CPU time
// of an event at saturation as ratios to a peer's and to that of the commit in BENCH_BASE (cost-round.ts): the one that
// main was at before the change. When that says "too noisy" more rounds are added,
// until ROUNDS_MAX or the time is up. It ends within three minutes.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { BenchEnvironment, checkOut, ROOT } from './bench-environment.ts';
import { costRound } from './cost-round.ts';
import { gateVerdict, type Budget, type CostRound, type GateVerdict, type LatencyRun } from './gate-verdict.ts';
import { measure, type Plan } from './measure.ts';
import { Progress } from './progress.ts';
import { GATEWAY, gatewayOf, type Subject } from './subjects.ts';

/** The target (openapi/rules.md, 8). */
const P99_MAX_MS = 200;
/**
 * Events a second: about a sixth of what one gateway takes on two slow cores, so that the target holds on any machine.
 */
const FIXED_RATE_PER_S = 2_000;
const ROUNDS_FIRST = 5;
const ROUNDS_MAX = 7;
/** No round begins after this. One takes some 30 s. */
const TIME_MAX_MS = 150_000;

const LATENCY_DURATION = { seconds: 5, warmupSeconds: 2 };

const budget = JSON.parse(readFileSync(join(ROOT, 'bench/budget.json'), 'utf8')) as Budget;
const environment = await BenchEnvironment.create();
const progress = new Progress();
const base = await comparedCommit();
const costs: CostRound[] = [];
const latencies: LatencyRun[] = [];

const verdict = await measured();
progress.clear();
for (const line of verdict.lines) process.stdout.write(`bench-gate: ${line}\n`);
const [code, words] = (
  {
    pass: [0, 'pass'],
    worse: [1, 'worse'],
    'too noisy': [3, 'no verdict: this machine was too busy to tell'],
  } as const
)[verdict.outcome];
process.stdout.write(`bench-gate: ${words}\n`);
process.exit(code);

async function measured(): Promise<GateVerdict> {
  const beganMs = performance.now();
  for (let rounds = 1; ; rounds += 1) {
    const lastLatency = latencies.at(-1);
    if (lastLatency === undefined || lastLatency.failure !== undefined || lastLatency.p99Ms >= P99_MAX_MS)
      await latencyRun();
    progress.show(`round ${rounds}: gateway and peer at saturation`);
    // A round in which an answer was no 202 is void: its figures are those of something else.
    await costRound(environment, base?.subject).then(
      (round) => costs.push(round),
      (cause: unknown) => progress.show(`round ${rounds} is void: ${String(cause)}`),
    );
    if (rounds < ROUNDS_FIRST && performance.now() - beganMs < TIME_MAX_MS) continue;
    const soFar = gateVerdict(costs, latencies, budget, P99_MAX_MS, base?.commit);
    const over = rounds >= ROUNDS_MAX || performance.now() - beganMs > TIME_MAX_MS;
    if (soFar.outcome !== 'too noisy' || over) return soFar;
  }
}

/**
 * The commit to compare with; undefined where none is named, or where its gateway does not start with the dependencies
 * of this checkout, which is told.
 */
async function comparedCommit(): Promise<{ readonly commit: string; readonly subject: Subject } | undefined> {
  const commit = process.env['BENCH_BASE'] ?? '';
  if (commit === '') {
    process.stdout.write('bench-gate: not compared with a commit before: BENCH_BASE is not set\n');
    return undefined;
  }
  try {
    const subject = gatewayOf(checkOut(commit));
    const redis = await environment.redis();
    const server = await subject.start(environment, redis);
    await server.stop();
    await redis.stop();
    return { commit, subject };
  } catch (cause) {
    process.stdout.write(`bench-gate: not compared with ${commit}: ${String(cause)}\n`);
    return undefined;
  }
}

async function latencyRun(): Promise<void> {
  progress.show(`${FIXED_RATE_PER_S} events/s, open loop`);
  const plan: Plan = { label: 'gateway', subject: GATEWAY, load: 'paced.ts', options: { ratePerS: FIXED_RATE_PER_S } };
  const sample = await measure(environment, plan, LATENCY_DURATION);
  latencies.push({
    p99Ms: sample.figures['p99Ms'] ?? Number.NaN,
    failure: sample.void,
    foreignShare: sample.figures['foreignShare'] ?? 0,
  });
}
