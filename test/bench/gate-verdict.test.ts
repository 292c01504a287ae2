import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Lane } from '../../bench/at-rate.ts';
import { gateVerdict, type Budget, type CostRound, type Measured, type RateRun } from '../../bench/gate-verdict.ts';

const BUDGET: Budget = {
  ...{ measured: '2026-11-26', p99Ms: 200, fullSpeedToControl: 0.33 },
  ...{ gatewayToPeer: 1.25, redisToPeer: 0.5, heapBytes: 4_000, steps: [] },
};
const FINE: Lane = {
  ...{ fullSpeedPerS: 8_000, p99Ms: 8, slowestMs: 20, offeredShare: 1, totalUs: 200 },
  failure: undefined,
};
const LATE: Lane = { ...FINE, p99Ms: 200, slowestMs: 700 };
const FAILING: Lane = { ...FINE, failure: '3 answers 503' };
/** The machine stood still, but for less than the limit. */
const HELD: Lane = { ...FINE, p99Ms: 90, slowestMs: 180 };

const rounds = (...ratios: number[]): CostRound[] =>
  ratios.map((gatewayToPeer) => ({
    ...{ gatewayToPeer, redisToPeer: 0.375, pipelinedToPlain: 0.4, heapBytes: 3_900 },
    foreignShare: 0.1,
  }));
const GOOD = rounds(1.1, 1.1, 1.1);
const NOISY = rounds(0.9, 1.8, 1.1, 1.6, 1.3);
const ofEach = (costs: readonly CostRound[], part: Partial<CostRound>): CostRound[] =>
  costs.map((one) => ({ ...one, ...part }));

const run = (gateway: Lane, control: Lane = FINE, more: Partial<RateRun> = {}): RateRun => ({
  ...{ gateway, control, foreignShare: 0.02 },
  ...more,
});
const outcome = (measured: Partial<Measured>, budget = BUDGET, base?: string): string =>
  gateVerdict({ costs: GOOD, failures: [], runs: [run(FINE), run(FINE), run(FINE)], ...measured }, budget, base)
    .outcome;

describe('the cost of an event', () => {
  for (const [what, wanted, costs] of [
    ['within the budget passes', 'pass', rounds(1.1, 1.12, 1.09, 1.14, 1.1)],
    ['over the budget in every round is worse', 'worse', rounds(1.4, 1.45, 1.38, 1.41, 1.5)],
    ['with a median over the budget is worse if the rounds agree', 'worse', rounds(1.24, 1.28, 1.27, 1.29, 1.26)],
    ['spread widely is worse if even the best round is over the budget', 'worse', rounds(1.3, 2.6, 1.9, 1.4, 3.1)],
    ['spread widely around the budget has no verdict', 'no verdict', NOISY],
    ['spread widely below the budget passes', 'pass', rounds(0.7, 1.2, 0.9, 1.1, 0.8)],
    ['has no verdict with too few valid rounds', 'no verdict', rounds(1.1, 1.1)],
    ['has no verdict without a round', 'no verdict', []],
    ['in Redis has its own budget', 'worse', ofEach(GOOD, { redisToPeer: 0.75 })],
    ['in Redis is worse whatever the noise of the gateway', 'worse', ofEach(NOISY, { redisToPeer: 1.5 })],
    ['in heap has a budget', 'worse', ofEach(GOOD, { heapBytes: 4_100 })],
    ['of pipelined requests has a limit', 'worse', ofEach(GOOD, { pipelinedToPlain: 0.6 })],
  ] as readonly (readonly [string, string, CostRound[]])[])
    it(what, () => assert.equal(outcome({ costs }), wanted));

  it('is not read from rounds in which other processes used the CPU', () => {
    const disturbed = ofEach(rounds(2, 2, 2, 2), { foreignShare: 0.7 });
    assert.equal(outcome({ costs: [...rounds(1.1, 1.1), ...disturbed] }), 'no verdict');
    assert.equal(outcome({ costs: [...GOOD, ...disturbed] }), 'pass');
  });
});

describe('the control', () => {
  const unsent = { ...LATE, offeredShare: 0.94 };
  const busy = { foreignShare: 0.7 };
  for (const [what, wanted, runs] of [
    ['convicts a late gateway, however busy the machine', 'worse', [run(LATE, FINE, busy)]],
    ['convicts a gateway that failed, even after good runs', 'worse', [run(FINE), run(FINE), run(FAILING)]],
    ['convicts a gateway without latencies', 'worse', [run({ ...LATE, p99Ms: Number.NaN })]],
    ['prevents a verdict if it was late, too', 'no verdict', [run(LATE, LATE), run(FAILING, LATE)]],
    ['prevents a verdict if it failed, too', 'no verdict', [run(FAILING, FAILING)]],
    ['that was held up once excuses one bad run', 'pass', [run(FAILING, HELD), run(FINE), run(FINE)]],
    ['that was held up needs a second good run', 'no verdict', [run(LATE, HELD), run(FINE)]],
    ['that was held up does not excuse two', 'worse', [run(LATE, HELD), run(FINE), run(FAILING, HELD)]],
    [
      'that was held up excuses runs in which the base was late, too',
      'pass',
      [...[run(LATE, HELD, { base: LATE }), run(LATE, HELD, { base: LATE })], run(FINE)],
    ],
    [
      'that was held up does not excuse a gateway that was far later than the base',
      'worse',
      [...[run({ ...LATE, p99Ms: 700 }, HELD, { base: LATE }), run({ ...LATE, p99Ms: 700 }, HELD, { base: LATE })]],
    ],
    [
      'that was held up excuses a gateway that was a little later than the base',
      'pass',
      [...[1, 2].map(() => run({ ...LATE, p99Ms: 300 }, HELD, { base: LATE })), run(FINE)],
    ],
    ['that was held up leaves a single bad run without a verdict', 'no verdict', [run(LATE, HELD)]],
    ['has no word on a run that offered less than 95 % of the load', 'no verdict', [run(unsent)]],
    ['lets a late gateway not pass with a run that was not offered', 'worse', [run(unsent), run(LATE)]],
    ['is needed', 'no verdict', []],
  ] as readonly (readonly [string, string, RateRun[]])[])
    it(what, () => assert.equal(outcome({ runs }), wanted));

  it('leaves a worse cost worse, and a late gateway late', () => {
    assert.equal(outcome({ costs: rounds(1.4, 1.45, 1.38), runs: [run(LATE, LATE)] }), 'worse');
    assert.equal(outcome({ costs: NOISY, runs: [run(LATE)] }), 'worse');
  });

  it('shows a gateway that is slow at full speed in every round', () => {
    const slow = run({ ...FINE, fullSpeedPerS: 2_000 });
    assert.equal(outcome({ runs: [slow, slow, slow] }), 'worse');
    assert.equal(outcome({ runs: [slow, slow, run(FINE)] }), 'pass');
    assert.equal(outcome({ runs: [slow, slow] }), 'no verdict');
  });

  it('decides whether a round that ended early was the fault of the gateway', () => {
    const failed = (cause: string, control = FINE) => ({ cause, run: run(FINE, control) });
    const own = failed('Error: pipelined: an answer 503');
    assert.equal(outcome({ failures: [own] }), 'pass');
    assert.equal(outcome({ failures: [own, own] }), 'worse');
    assert.equal(outcome({ failures: [own, failed('Error: fastify: a broken connection')] }), 'pass');
    for (const slow of [LATE, { ...FINE, p99Ms: 150 }])
      assert.equal(outcome({ failures: [own, failed('Error: gateway: an answer 503', slow)] }), 'pass');
  });
});

describe('the step from the commit before', () => {
  const BASE = 'abcdef0123456789';
  const steps = (...ratios: number[]): CostRound[] =>
    ratios.flatMap((gatewayToBase) => ofEach(rounds(1.1), { gatewayToBase, redisToBase: 1, heapToBase: 1 }));
  const pairs = (...latencies: readonly (readonly [number, number])[]): RateRun[] =>
    latencies.map(([p99Ms, base]) => run({ ...FINE, p99Ms }, FINE, { base: { ...FINE, p99Ms: base } }));
  const atRate = (...ratios: number[]): RateRun[] =>
    ratios.map((ratio) => run({ ...FINE, totalUs: 200 * ratio }, FINE, { base: FINE }));
  const SAME = pairs([8, 8], [7, 8], [9, 8]);
  const outcomeOf = (costs: readonly CostRound[], steps: Budget['steps'] = [], runs = SAME): string =>
    outcome({ costs, runs }, { ...BUDGET, steps }, BASE);

  it('is worse if the best p99 is more than 1.5 times that of the base, and passes a difference under 3 ms', () => {
    const costs = steps(1, 1, 1);
    assert.equal(outcomeOf(costs, [], pairs([18, 8], [17, 8], [16, 8])), 'worse');
    assert.equal(outcomeOf(costs, [], pairs([4, 2], [4, 2], [4, 2])), 'pass');
    assert.equal(outcomeOf(costs, [], pairs([18, 8], [17, 8], [8, 8])), 'pass');
    assert.equal(outcomeOf(costs, [], pairs([14, 13], [13, 6], [12, 5])), 'worse');
  });

  it('has no verdict on p99 if the machine delayed the control, or if the load was not offered', () => {
    for (const control of [
      { ...FINE, p99Ms: 26 },
      { ...FINE, offeredShare: 0.94 },
    ]) {
      const runs = SAME.map((one, at) => (at === 0 ? { ...one, control } : one));
      assert.equal(outcomeOf(steps(1, 1, 1), [], runs), 'no verdict');
    }
  });

  it('fails a change that allocates 15 % more', () => {
    assert.equal(outcomeOf(ofEach(steps(1, 1, 1), { heapToBase: 1.15 })), 'worse');
  });

  it('passes a change that costs 3 %, fails one that costs 5 %, and has no verdict if the rounds differ by 7 %', () => {
    assert.equal(outcomeOf(steps(1, 1.05, 1.07)), 'no verdict');
    assert.equal(outcomeOf(steps(1.03, 1.02, 1.03, 1.04, 1.03)), 'pass');
    assert.equal(outcomeOf(steps(1.05, 1.06, 1.05, 1.07, 1.05)), 'worse');
  });

  it('fails a change that costs Redis more, whatever the gateway saves', () => {
    assert.equal(outcomeOf(ofEach(steps(0.9, 0.9, 0.9), { redisToBase: 1.2 })), 'worse');
  });

  it('fails a change that costs more at the fixed rate, whatever it saves at saturation', () => {
    assert.equal(outcomeOf(steps(0.9, 0.9, 0.9), [], atRate(1.2, 1.22, 1.21)), 'worse');
    assert.equal(outcomeOf(steps(0.9, 0.9, 0.9), [], atRate(1.02, 1.05, 1.01)), 'pass');
    const disturbed = atRate(1.5, 1.5, 1.5).map((one) => ({ ...one, foreignShare: 0.7 }));
    assert.equal(outcomeOf(steps(1, 1, 1), [], [...atRate(1.02, 1.05, 1.01), ...disturbed]), 'pass');
  });

  it('passes a recorded step up to its limit', () => {
    const recorded = [
      { since: 'abcdef', gateway: 1.1, redis: 1.2, heap: 1.3, ordinary: 1.25, reason: 'a keyed index' },
    ];
    assert.equal(outcomeOf(steps(1.08, 1.09, 1.08), recorded, atRate(1.2, 1.22, 1.21)), 'pass');
    assert.equal(outcomeOf(ofEach(steps(1, 1, 1), { redisToBase: 1.15, heapToBase: 1.25 }), recorded), 'pass');
    assert.equal(outcomeOf(steps(1.14, 1.15, 1.13), recorded), 'worse');
    const elsewhere = recorded.map((step) => ({ ...step, since: '999' }));
    assert.equal(outcomeOf(steps(1.08, 1.09, 1.08), elsewhere), 'worse');
  });

  it('has no verdict if no round measured it', () => {
    assert.equal(outcomeOf(GOOD), 'no verdict');
  });
});
