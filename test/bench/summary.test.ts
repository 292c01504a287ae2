import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Sample } from '../../bench/measure.ts';
import { summarize } from '../../bench/summary.ts';

const sample = (label: string, serverUs: number, more: Partial<Sample> = {}): Sample => ({
  ...{ label, figures: { serverUs }, statuses: {} },
  ...more,
});

const ratio = (of: readonly Sample[], against: readonly Sample[]): number | undefined =>
  summarize({
    benchCase: {
      ...{ name: 'case', aim: '', runs: () => [] },
      comparisons: [{ metric: 'serverUs', of: 'new', against: 'old' }],
    },
    samples: new Map([
      ['new', of],
      ['old', against],
    ]),
  }).comparisons[0]?.figure.median;

describe('a reported ratio', () => {
  const old = [sample('old', 10), sample('old', 20)];

  it('is computed from the figures of each round', () => {
    assert.equal(ratio([sample('new', 20), sample('new', 60)], old), 2.5);
  });

  it('is the one that was measured side by side', () => {
    const beside = [1.25, 1.5].map((serverUs) => sample('new', 30, { ratios: { old: { serverUs } } }));
    assert.equal(ratio(beside, old), 1.375);
  });

  it('ignores void rounds', () => {
    const [first, second] = [1.25, 1.5].map((serverUs) => sample('new', 30, { ratios: { old: { serverUs } } }));
    assert.ok(first !== undefined && second !== undefined);
    assert.equal(ratio([first, { ...second, figures: {}, ratios: {}, void: 'a broken connection' }], old), 1.25);
  });
});

describe('a goal', () => {
  const goal = (figures: Sample['figures'], metric: 'p99Ms' | 'serverUs' | 'bytesEach' = 'p99Ms') =>
    summarize({
      benchCase: {
        ...{ name: 'case', aim: '', runs: () => [] },
        comparisons: [{ metric, of: 'new', limit: { atMost: 200 } }],
      },
      samples: new Map([
        ['new', [sample('new', 10, { figures: { p99Ms: 10, serverUs: 10, bytesEach: 10, ...figures } })]],
      ]),
    }).comparisons[0];

  it('is reached if the load was sent on a quiet machine', () => {
    assert.equal(goal({ offeredShare: 0.99, foreignShare: 0.1 })?.verdict, 'reached');
  });

  it('is not tested if the planned load was not sent', () => {
    const told = goal({ offeredShare: 0.16, foreignShare: 0.1 });
    assert.equal(told?.verdict, 'not tested');
    assert.equal(told.untested, 'only 16 % of the planned rate was offered');
  });

  it('is not tested if other processes distorted its figure', () => {
    assert.equal(goal({ foreignShare: 0.84 })?.untested, 'other processes took 84 % of the CPU');
    assert.equal(goal({ foreignShare: 0.3 }, 'serverUs')?.verdict, 'reached');
    assert.equal(goal({ foreignShare: 0.5 }, 'serverUs')?.verdict, 'not tested');
    assert.equal(goal({ foreignShare: 0.84 }, 'bytesEach')?.verdict, 'reached');
  });
});
