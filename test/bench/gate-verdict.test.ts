import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { gateVerdict, type Budget, type CostRound, type LatencyRun } from '../../bench/gate-verdict.ts';

const BUDGET = { measured: '2026-11-26', gatewayToPeer: 1.25, redisToPeer: 0.5, heapBytes: 4_000, steps: [] };
const P99_MAX_MS = 200;
const QUIET: LatencyRun = { p99Ms: 8, failure: undefined, foreignShare: 0.02 };

const rounds = (...ratios: number[]): CostRound[] =>
  ratios.map((gatewayToPeer) => ({
    ...{ gatewayToPeer, redisToPeer: 0.375, pipelinedToPlain: 0.4, heapBytes: 3_900 },
    foreignShare: 0.1,
  }));

const outcome = (costs: readonly CostRound[], latencies: readonly LatencyRun[] = [QUIET]): string =>
  gateVerdict(costs, latencies, BUDGET, P99_MAX_MS).outcome;

const round = (costs: readonly CostRound[], part: Partial<CostRound>): CostRound[] =>
  costs.map((one) => ({ ...one, ...part }));
const GOOD = rounds(1.1, 1.1, 1.1);
const NOISY = rounds(0.9, 1.8, 1.1, 1.6, 1.3);
const FAILED = { ...QUIET, failure: '3 answers 503' };
const BUSY = { p99Ms: 900, failure: '3 answers 503', foreignShare: 0.6 };

describe('the gate', () => {
  for (const [what, wanted, costs, latencies = [QUIET]] of [
    ['passes a cost within the budget', 'pass', rounds(1.1, 1.12, 1.09, 1.14, 1.1)],
    ['fails a cost over the budget in every round', 'worse', rounds(1.4, 1.45, 1.38, 1.41, 1.5)],
    ['fails a median over the budget if the rounds agree', 'worse', rounds(1.24, 1.28, 1.27, 1.29, 1.26)],
    ['fails a wide spread if even the best round is over the budget', 'worse', rounds(1.3, 2.6, 1.9, 1.4, 3.1)],
    ['has no verdict if the rounds are spread widely around the budget', 'too noisy', NOISY],
    ['passes a wide spread below the budget', 'pass', rounds(0.7, 1.2, 0.9, 1.1, 0.8)],
    ['has no verdict with too few valid rounds', 'too noisy', rounds(1.1, 1.1)],
    ['has no verdict without a round', 'too noisy', []],
    ['has a separate budget for Redis', 'worse', round(GOOD, { redisToPeer: 0.75 })],
    ['has a budget for the heap that an event allocates', 'worse', round(GOOD, { heapBytes: 4_100 })],
    ['has a limit for the cost of pipelined requests', 'worse', round(GOOD, { pipelinedToPlain: 0.6 })],
    ['fails a worse cost even if the latency is too noisy', 'worse', rounds(1.4, 1.45, 1.38), [BUSY]],
    ['fails a worse latency even if the cost is too noisy', 'worse', NOISY, [{ ...QUIET, p99Ms: 300 }]],
    ['fails a worse Redis even if the gateway is too noisy', 'worse', round(NOISY, { redisToPeer: 1.5 })],
    ['has no verdict without a latency', 'too noisy', GOOD, []],
    ['fails a late p99 on a quiet machine', 'worse', GOOD, [{ ...QUIET, p99Ms: 200 }]],
    ['fails an answer other than 202 on a quiet machine', 'worse', GOOD, [FAILED]],
    ['does not fail a late p99 while other processes use the CPU', 'too noisy', GOOD, [BUSY]],
    ['passes after one good run', 'pass', GOOD, [BUSY, QUIET]],
    ['fails after a failure on a quiet machine, even with a good run', 'worse', GOOD, [FAILED, QUIET]],
    ['treats a run without latencies as late', 'worse', GOOD, [{ ...QUIET, p99Ms: Number.NaN }]],
  ] as readonly (readonly [string, string, CostRound[], LatencyRun[]?])[])
    it(what, () => assert.equal(outcome(costs, latencies), wanted));

  it('ignores rounds in which other processes used the CPU', () => {
    const disturbed = round(rounds(2, 2, 2, 2), { foreignShare: 0.7 });
    assert.equal(outcome([...rounds(1.1, 1.1), ...disturbed]), 'too noisy');
    assert.equal(outcome([...GOOD, ...disturbed]), 'pass');
  });
});

describe('the step from the commit before', () => {
  const BASE = 'abcdef0123456789';
  const steps = (...ratios: number[]): CostRound[] =>
    ratios.flatMap((gatewayToBase) => round(rounds(1.1), { gatewayToBase, redisToBase: 1, heapToBase: 1 }));
  const latencies = (...pairs: readonly (readonly [number, number])[]): LatencyRun[] =>
    pairs.map(([p99Ms, baseP99Ms]) => ({ ...QUIET, p99Ms, baseP99Ms }));
  const SAME = latencies([8, 8], [7, 8], [9, 8]);
  const outcomeOf = (costs: readonly CostRound[], allowed: Budget['steps'] = [], runs = SAME): string =>
    gateVerdict(costs, runs, { ...BUDGET, steps: allowed }, P99_MAX_MS, BASE).outcome;

  it('fails if the best p99 is more than 1.5 times that of the base, and passes a difference under 3 ms', () => {
    const costs = steps(1, 1, 1);
    assert.equal(outcomeOf(costs, [], latencies([18, 8], [17, 8], [16, 8])), 'worse');
    assert.equal(outcomeOf(costs, [], latencies([4, 2], [4, 2], [4, 2])), 'pass');
    assert.equal(outcomeOf(costs, [], latencies([18, 8], [8, 8], [7, 8])), 'pass');
    assert.equal(outcomeOf(costs, [], latencies([18, 8], [17, 8], [8, 8])), 'pass');
    assert.equal(outcomeOf(costs, [], latencies([14, 13], [13, 6], [12, 5])), 'worse');
  });

  it('has no verdict on p99 with fewer than three undisturbed pairs', () => {
    const runs = latencies([8, 8], [8, 8], [8, 8]).map((run, at) => ({ ...run, foreignShare: at === 0 ? 0.5 : 0 }));
    assert.equal(outcomeOf(steps(1, 1, 1), [], runs), 'too noisy');
  });

  it('fails a change that allocates 15 % more', () => {
    assert.equal(outcomeOf(round(steps(1, 1, 1), { heapToBase: 1.15 })), 'worse');
  });

  it('passes a change that costs 3 %, fails one that costs 5 %, and has no verdict if the rounds differ by 7 %', () => {
    assert.equal(outcomeOf(steps(1, 1.05, 1.07)), 'too noisy');
    assert.equal(outcomeOf(steps(1.03, 1.02, 1.03, 1.04, 1.03)), 'pass');
    assert.equal(outcomeOf(steps(1.05, 1.06, 1.05, 1.07, 1.05)), 'worse');
  });

  it('fails a change that costs Redis more, whatever the gateway saves', () => {
    assert.equal(outcomeOf(round(steps(0.9, 0.9, 0.9), { redisToBase: 1.2 })), 'worse');
  });

  it('passes a recorded step up to its limit', () => {
    const recorded = [{ since: 'abcdef', gateway: 1.1, redis: 1, reason: 'a keyed index' }];
    assert.equal(outcomeOf(steps(1.08, 1.09, 1.08), recorded), 'pass');
    assert.equal(outcomeOf(steps(1.14, 1.15, 1.13), recorded), 'worse');
    const elsewhere = recorded.map((step) => ({ ...step, since: '999' }));
    assert.equal(outcomeOf(steps(1.08, 1.09, 1.08), elsewhere), 'worse');
  });

  it('has no verdict if no round measured it', () => {
    assert.equal(outcomeOf(rounds(1.1, 1.1, 1.1)), 'too noisy');
  });
});
