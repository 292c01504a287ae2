import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { gateVerdict, type Budget, type CostRound, type LatencyRun } from '../../bench/gate-verdict.ts';

const BUDGET = { gatewayToPeer: 1.25, redisToPeer: 0.5, steps: [] };
const P99_MAX_MS = 200;
const QUIET: LatencyRun = { p99Ms: 8, failure: undefined, foreignShare: 0.02 };

const rounds = (...ratios: number[]): CostRound[] =>
  ratios.map((gatewayToPeer) => ({ gatewayToPeer, redisToPeer: 0.375, pipelinedToPlain: 0.4, foreignShare: 0.1 }));

const outcome = (costs: readonly CostRound[], latencies: readonly LatencyRun[] = [QUIET]): string =>
  gateVerdict(costs, latencies, BUDGET, P99_MAX_MS).outcome;

describe('the gate', () => {
  it('passes a cost within the budget', () => {
    assert.equal(outcome(rounds(1.1, 1.12, 1.09, 1.14, 1.1)), 'pass');
  });

  it('fails a gateway that costs more than its budget in every round', () => {
    assert.equal(outcome(rounds(1.4, 1.45, 1.38, 1.41, 1.5)), 'worse');
  });

  it('fails a gateway whose median is over the budget when the rounds agree', () => {
    assert.equal(outcome(rounds(1.24, 1.28, 1.27, 1.29, 1.26)), 'worse');
  });

  it('fails a wide spread if even the best round is over the budget', () => {
    assert.equal(outcome(rounds(1.3, 2.6, 1.9, 1.4, 3.1)), 'worse');
  });

  it('has no verdict if the rounds are spread widely around the budget', () => {
    assert.equal(outcome(rounds(0.9, 1.8, 1.1, 1.6, 1.3)), 'too noisy');
  });

  it('passes a wide spread below the budget', () => {
    assert.equal(outcome(rounds(0.7, 1.2, 0.9, 1.1, 0.8)), 'pass');
  });

  it('has no verdict with too few valid rounds', () => {
    assert.equal(outcome(rounds(1.1, 1.1)), 'too noisy');
    assert.equal(outcome([]), 'too noisy');
  });

  it('ignores rounds in which other processes used the CPU', () => {
    const disturbed = rounds(2, 2, 2, 2).map((round) => ({ ...round, foreignShare: 0.7 }));
    assert.equal(outcome([...rounds(1.1, 1.1), ...disturbed]), 'too noisy');
    assert.equal(outcome([...rounds(1.1, 1.1, 1.1), ...disturbed]), 'pass');
  });

  it('has a separate budget for Redis', () => {
    assert.equal(outcome(rounds(1.1, 1.1, 1.1).map((round) => ({ ...round, redisToPeer: 0.75 }))), 'worse');
  });

  it('has a limit for the cost of pipelined requests', () => {
    assert.equal(outcome(rounds(1.1, 1.1, 1.1).map((round) => ({ ...round, pipelinedToPlain: 0.6 }))), 'worse');
  });

  it('fails a worse figure even if another one is too noisy', () => {
    const noisyLatency: LatencyRun = { p99Ms: 900, failure: undefined, foreignShare: 0.9 };
    assert.equal(outcome(rounds(1.4, 1.45, 1.38), [noisyLatency]), 'worse');
    const noisyCost = rounds(0.9, 1.8, 1.1, 1.6, 1.3);
    assert.equal(outcome(noisyCost, [{ ...QUIET, p99Ms: 300 }]), 'worse');
    assert.equal(outcome(noisyCost.map((round) => ({ ...round, redisToPeer: 1.5 }))), 'worse');
    const noisyRedis = [0.25, 1, 0.3, 0.95, 0.28].map((redisToPeer) => ({
      gatewayToPeer: 1.5,
      redisToPeer,
      pipelinedToPlain: 0.4,
      foreignShare: 0.1,
    }));
    assert.equal(outcome(noisyRedis), 'worse');
  });

  it('has no verdict if one of the checks is too noisy', () => {
    assert.equal(outcome(rounds(0.9, 1.8, 1.1, 1.6, 1.3)), 'too noisy');
    assert.equal(outcome(rounds(1.1, 1.1, 1.1), []), 'too noisy');
  });
});

describe('the latency check', () => {
  const costs = rounds(1.1, 1.1, 1.1);

  it('fails a late p99 on a quiet machine', () => {
    assert.equal(outcome(costs, [{ ...QUIET, p99Ms: 200 }]), 'worse');
  });

  it('fails an answer other than 202 on a quiet machine', () => {
    assert.equal(outcome(costs, [{ ...QUIET, failure: '3 answers 503' }]), 'worse');
  });

  it('does not fail a late p99 while other processes use the CPU', () => {
    assert.equal(outcome(costs, [{ p99Ms: 900, failure: '3 answers 503', foreignShare: 0.6 }]), 'too noisy');
  });

  it('passes after one good run', () => {
    assert.equal(outcome(costs, [{ p99Ms: 900, failure: undefined, foreignShare: 0.6 }, QUIET]), 'pass');
  });

  it('fails after a failure on a quiet machine, even with a good run', () => {
    assert.equal(outcome(costs, [{ ...QUIET, failure: '1 broken connections' }, QUIET]), 'worse');
  });

  it('treats a run without latencies as late', () => {
    assert.equal(outcome(costs, [{ ...QUIET, p99Ms: Number.NaN }]), 'worse');
  });
});

describe('the output of the gate', () => {
  it('names every figure with its budget', () => {
    const { lines } = gateVerdict(rounds(1.1, 1.12, 1.14), [QUIET], BUDGET, P99_MAX_MS);
    assert.deepEqual(lines, [
      'p99 at the fixed rate 8.0 ms of 200 ms, other processes at 2 % of the CPU: pass',
      'gateway / Fastify: 1.12 (1.10 to 1.14) times its CPU per event, budget 1.25: pass',
      'Redis / plain XADD: 0.38 (0.38 to 0.38) times its CPU per event, budget 0.50: pass',
      'gateway with 16 requests on a connection / with one: 0.40 (0.40 to 0.40) times its CPU per event, budget 0.55: pass',
    ]);
  });
});

describe('the step from the commit before', () => {
  const BASE = 'abcdef0123456789';
  const steps = (...ratios: number[]): CostRound[] =>
    rounds(...ratios.map(() => 1.1)).map((round, at) => ({ ...round, gatewayToBase: ratios[at] ?? 1, redisToBase: 1 }));
  const outcomeOf = (costs: readonly CostRound[], allowed: Budget['steps'] = []): string =>
    gateVerdict(costs, [QUIET], { ...BUDGET, steps: allowed }, P99_MAX_MS, BASE).outcome;

  it('passes a change that costs 3 %, and fails one that costs 5 %', () => {
    assert.equal(outcomeOf(steps(1.03, 1.02, 1.03, 1.04, 1.03)), 'pass');
    assert.equal(outcomeOf(steps(1.05, 1.06, 1.05, 1.07, 1.05)), 'worse');
  });

  it('fails a change that costs Redis more, whatever the gateway saves', () => {
    const costs = steps(0.9, 0.9, 0.9).map((round) => ({ ...round, redisToBase: 1.2 }));
    assert.equal(outcomeOf(costs), 'worse');
  });

  it('passes a recorded step up to its limit', () => {
    const recorded = [{ since: 'abcdef', gateway: 1.1, redis: 1, reason: 'a keyed index' }];
    assert.equal(outcomeOf(steps(1.08, 1.09, 1.08), recorded), 'pass');
    assert.equal(outcomeOf(steps(1.14, 1.15, 1.13), recorded), 'worse');
    assert.equal(
      outcomeOf(
        steps(1.08, 1.09, 1.08),
        recorded.map((step) => ({ ...step, since: '999' })),
      ),
      'worse',
    );
  });

  it('has no verdict if no round measured it', () => {
    assert.equal(outcomeOf(rounds(1.1, 1.1, 1.1)), 'too noisy');
  });

  it('names the commit and the limit', () => {
    const { lines } = gateVerdict(steps(1.01, 1.01, 1.01), [QUIET], BUDGET, P99_MAX_MS, BASE);
    assert.equal(lines[4], 'gateway / abcdef0123: 1.01 (1.01 to 1.01) times its CPU per event, budget 1.04: pass');
  });
});
