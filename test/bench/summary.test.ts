import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Comparison } from '../../bench/bench-case.ts';
import type { Sample } from '../../bench/measure.ts';
import { summarize } from '../../bench/summary.ts';

const sample = (label: string, serverUs: number, more: Partial<Sample> = {}): Sample => ({
  ...{ label, figures: { serverUs }, statuses: {} },
  ...more,
});

const compared = (comparison: Comparison, ...samples: readonly Sample[]) =>
  summarize({
    benchCase: { name: 'case', aim: '', runs: () => [], comparisons: [comparison] },
    samples: Map.groupBy(samples, ({ label }) => label),
  }).comparisons[0];

describe('a reported ratio', () => {
  const ratio = (...samples: readonly Sample[]): number | undefined =>
    compared({ metric: 'serverUs', of: 'new', against: 'old' }, ...samples)?.figure.median;
  const old = [sample('old', 10), sample('old', 20)];
  const broken = { void: 'a broken connection' };

  it('is computed from the figures of each round', () => {
    assert.equal(ratio(sample('new', 20), sample('new', 60), ...old), 2.5);
    assert.equal(ratio(sample('new', 10), sample('new', 60), sample('old', 10, broken), sample('old', 20)), 3);
  });

  it('is the one that was measured side by side, without void rounds', () => {
    const beside = (serverUs: number, more = {}) => sample('new', 30, { ratios: { old: { serverUs } }, ...more });
    assert.equal(ratio(beside(1.25), beside(1.5), ...old), 1.375);
    assert.equal(ratio(beside(1.25), beside(1.5, { figures: {}, ratios: {}, ...broken }), ...old), 1.25);
  });
});

it('a goal is tested only if the load was sent, and no other process distorted its figure on either side', () => {
  const goal = (figures: Sample['figures'], metric: Comparison['metric'] = 'p99Ms', against = {}) =>
    compared(
      { metric, of: 'new', limit: { atMost: 200 }, ...against },
      sample('new', 10, { figures: { p99Ms: 10, serverUs: 10, bytesEach: 10, ...figures } }),
      sample('old', 10, { figures: { serverUs: 10, foreignShare: 0.5 } }),
    );
  assert.equal(goal({ offeredShare: 0.99, foreignShare: 0.1 })?.verdict, 'reached');
  const unsent = goal({ offeredShare: 0.16, foreignShare: 0.1 });
  assert.deepEqual([unsent?.verdict, unsent?.untested], ['not tested', 'only 16 % of the planned rate was offered']);
  assert.equal(goal({ foreignShare: 0.84 })?.untested, 'other processes took 84 % of the CPU');
  assert.equal(goal({ foreignShare: 0.3 }, 'serverUs')?.verdict, 'reached');
  assert.equal(goal({ foreignShare: 0.3 }, 'serverUs', { against: 'old' })?.verdict, 'not tested');
  assert.equal(goal({ foreignShare: 0.5 }, 'serverUs')?.verdict, 'not tested');
  assert.equal(goal({ foreignShare: 0.84 }, 'bytesEach')?.verdict, 'reached');
});
