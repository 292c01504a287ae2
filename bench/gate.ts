// `make bench-gate` compares the gateway with a control at a fixed rate, its CPU time and heap per event with the
// budget, and both with the gateway of the commit in BENCH_BASE. Every round starts fresh processes. The gate ends when
// a latency is certainly worse. While it has no verdict, it adds rounds, up to ROUNDS_MAX or TIME_MAX_MS. The last line
// is the verdict. Exit codes: 0 for pass, 1 for worse, 3 for no verdict.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { atRate } from './at-rate.ts';
import { BenchEnvironment, checkOut, git, ROOT } from './bench-environment.ts';
import { beside } from './beside.ts';
import { PIPELINED_LOAD } from './cases/pipelining.ts';
import {
  ENDS,
  FOREIGN_SHARE_ROUND_MAX,
  gateVerdict,
  latencyCheck,
  rateRun,
  type Budget,
  type CostFailure,
  type CostRound,
  type GateVerdict,
  type RateRun,
} from './gate-verdict.ts';
import { progress } from './measure.ts';
import { FASTIFY, FLOOR, GATEWAY, gatewayOf, type Subject, withServer } from './subjects.ts';
import { median } from './statistics.ts';
import { neighbourRatio } from './turns.ts';

/** An ordinary load, which a third of a slow core can serve, for the gateway, the control and the base alike. */
const FIXED_RATE_PER_S = 1_000;
const ROUNDS_FIRST = 3;
const ROUNDS_MAX = 5;
/** No round starts later than this. A round lasts about 55 s, and 70 s with BENCH_BASE. */
const TIME_MAX_MS = 190_000;

/** The time for each side of a pair. Three seconds is enough for 60 slices of 50 ms on each side. */
const COST_DURATION = { seconds: 3, warmupSeconds: 3 };
/** Twice the period of the rarest stall that `make bench-gate-check` builds. */
const RATE_DURATION = { fullSpeedSeconds: 5, warmupSeconds: 5, seconds: 10 };

const budget = JSON.parse(readFileSync(join(ROOT, 'bench/budget.json'), 'utf8')) as Budget;
const environment = await BenchEnvironment.create();
const base = await comparedCommit();
const costs: CostRound[] = [];
const runs: RateRun[] = [];
const failures: CostFailure[] = [];

const verdict = await measured();
for (const line of verdict.lines) process.stdout.write(`bench-gate: ${line}\n`);
const { code, words } = ENDS[verdict.outcome];
process.stdout.write(`bench-gate: ${words}\n`);
process.exit(code);

async function measured(): Promise<GateVerdict> {
  const beganMs = performance.now();
  for (let round = 1; ; round += 1) {
    progress(`round ${round}: gateway and control at full speed, then at ${FIXED_RATE_PER_S} events/s`);
    const subjects = base === undefined ? [GATEWAY, FLOOR] : [GATEWAY, FLOOR, base.subject];
    const run = rateRun(await atRate(environment, subjects, FIXED_RATE_PER_S, RATE_DURATION));
    runs.push(run);
    const latency = latencyCheck(runs, budget.p99Ms);
    progress(`${latency.line}: ${latency.outcome} so far`);
    if (latency.outcome === 'worse') return { outcome: 'worse', lines: [`${latency.line}: worse`] };
    // On a busy machine, costs have no verdict. Another run at the fixed rate may still convict or acquit.
    if (run.foreignShare <= FOREIGN_SHARE_ROUND_MAX) await saturated(round, run);
    const over = round >= ROUNDS_MAX || performance.now() - beganMs > TIME_MAX_MS;
    if (round < ROUNDS_FIRST && !over) continue;
    const soFar = gateVerdict({ costs, failures, runs }, budget, base?.commit);
    if (soFar.outcome !== 'no verdict' || over) return soFar;
  }
}

async function saturated(round: number, run: RateRun): Promise<void> {
  progress(`round ${round}: gateway and peer at saturation`);
  await costRound(base?.subject).then(
    (cost) => costs.push(cost),
    (cause: unknown) => {
      progress(`round ${round} at saturation is void: ${String(cause)}`);
      failures.push({ cause: String(cause), run });
    },
  );
}

/**
 * Returns `undefined` and prints a line if BENCH_BASE is empty or the gateway of that commit does not start with the
 * current dependencies.
 */
async function comparedCommit(): Promise<{ readonly commit: string; readonly subject: Subject } | undefined> {
  const commit = process.env['BENCH_BASE'] ?? '';
  if (commit === '') {
    process.stdout.write('bench-gate: not compared with a commit before: BENCH_BASE is not set\n');
    return undefined;
  }
  try {
    const subject = gatewayOf(checkOut(commit));
    await withServer(environment, subject, () => Promise.resolve());
    const about = git('log', '-1', '--format=%h of %cd (%cr): %s', '--date=short', commit);
    process.stdout.write(`bench-gate: compared with ${about}\n`);
    return { commit, subject };
  } catch (cause) {
    process.stdout.write(`bench-gate: not compared with ${commit}: ${String(cause)}\n`);
    return undefined;
  }
}

/**
 * Measures the CPU time per event at saturation, as ratios to Fastify with one XADD per event. The servers run side by
 * side, including `base`, the gateway of another commit, if it is given. Rejects if an answer is not 202 or a
 * connection breaks.
 *
 * Fact: the floor uses no Redis and little memory, and the gateway's ratio to it ranged from 0.99 to 1.30 within
 * three minutes. Choice: compare with a peer that does the same kind of work. Effect: the ratio ranged from 0.59 to
 * 0.62 in the same three minutes.
 */
async function costRound(base?: Subject): Promise<CostRound> {
  const subjects = base === undefined ? [GATEWAY, FASTIFY] : [GATEWAY, FASTIFY, base];
  const plans = [
    ...subjects.map((subject) => ({ label: subject.name, subject })),
    { label: 'pipelined', subject: GATEWAY, load: PIPELINED_LOAD },
    { label: 'plain', subject: GATEWAY },
  ];
  // Fact: when `base` was in only one pair, its Redis received half as many events as the gateway's Redis, which used
  // 1.09 times as much CPU time per event. Choice: every two servers form a pair, and the pipelined gateway is paired
  // with a second plain one, so that both sides of each pair receive the same load.
  const peers = subjects.flatMap(({ name }, at) =>
    subjects.slice(at + 1).map((other) => ({ of: name, against: other.name })),
  );
  const pipelined = { of: 'pipelined', against: 'plain' };
  const { pairs, foreignShare } = await beside(environment, plans, [...peers, pipelined], COST_DURATION);
  const [toPeer, toBase] = pairs.slice(0, -1);
  const toPlain = pairs.at(-1);
  if (toPeer === undefined || toPlain === undefined) throw new Error('no pair was measured');
  return {
    gatewayToPeer: neighbourRatio(toPeer, 'serverUs'),
    redisToPeer: neighbourRatio(toPeer, 'redisUs'),
    pipelinedToPlain: neighbourRatio(toPlain, 'serverUs'),
    // Code that V8 has not compiled yet allocates more: on a slow machine, 4.3 kB per event at first, and 4.1 later.
    heapBytes: median(toPeer.slices.of.slice(-20).map(({ figures }) => figures['heapBytes'] ?? Number.NaN)),
    ...(toBase !== undefined && {
      heapToBase: neighbourRatio(toBase, 'heapBytes'),
      gatewayToBase: neighbourRatio(toBase, 'serverUs'),
      redisToBase: neighbourRatio(toBase, 'redisUs'),
    }),
    foreignShare,
  };
}
