import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { limitVerdict, median, noiseText, ratios, ratioVerdict, spread } from '../../bench/statistics.ts';

describe('a spread', () => {
  it('has the middle sample, or the mean of the two middle ones', () => {
    assert.equal(median([3, 1, 2]), 2);
    assert.equal(median([4, 1, 3, 2]), 2.5);
  });

  it('is written as a share of the median if there is one', () => {
    assert.equal(noiseText(spread([90, 100, 110])), '±10 %');
    assert.equal(noiseText(spread([100])), '');
    assert.equal(noiseText(spread([0, 0, 0.3])), '');
  });

  it('reaches from least to greatest for five samples', () => {
    assert.deepEqual(spread([5, 1, 4, 2, 3]), { median: 3, low: 1, high: 5, count: 5 });
  });

  it('excludes the extreme on each side from eight samples on', () => {
    assert.deepEqual(spread([8, 1, 7, 2, 6, 3, 5, 4]), { median: 4.5, low: 2, high: 7, count: 8 });
  });

  it('of no samples is NaN with count 0', () => {
    assert.deepEqual(spread([]), { median: Number.NaN, low: Number.NaN, high: Number.NaN, count: 0 });
  });
});

describe('ratios', () => {
  it('are computed round by round, without incomplete rounds', () => {
    assert.deepEqual(ratios([2, undefined, 9], [1, 5, 3]), [2, 3]);
  });
});

describe('the verdict on a ratio', () => {
  it('is higher or lower if the interval excludes 1', () => {
    assert.equal(ratioVerdict(spread([1.1, 1.2, 1.15])), 'higher');
    assert.equal(ratioVerdict(spread([0.8, 0.9, 0.85])), 'lower');
  });

  it('is no difference if a narrow interval contains 1', () => {
    assert.equal(ratioVerdict(spread([0.98, 1.01, 1.03])), 'no difference');
  });

  it('is too noisy if the interval is wide or missing', () => {
    assert.equal(ratioVerdict(spread([0.6, 1.1, 1.7])), 'too noisy');
    assert.equal(ratioVerdict(spread([])), 'too noisy');
  });
});

describe('the verdict on a limit', () => {
  it('depends on the median if the samples agree', () => {
    assert.equal(limitVerdict(spread([1.05, 1.09, 1.12]), { atMost: 1.1 }), 'reached');
    assert.equal(limitVerdict(spread([0.65, 0.68, 0.71]), { atLeast: 0.7 }), 'missed');
  });

  it('is unclear if a wide interval contains the limit', () => {
    assert.equal(limitVerdict(spread([0.7, 1.0, 1.6]), { atMost: 1.1 }), 'unclear');
  });
});
