// Medians, intervals and verdicts on samples that are made up here.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { limitVerdict, median, noiseText, ratios, ratioVerdict, spread } from '../../bench/statistics.ts';

describe('a spread', () => {
  it('has the middle sample, or the mean of the two middle ones', () => {
    assert.equal(median([3, 1, 2]), 2);
    assert.equal(median([4, 1, 3, 2]), 2.5);
  });

  it('is written as a share of the median, where it has one', () => {
    assert.equal(noiseText(spread([90, 100, 110])), '±10 %');
    assert.equal(noiseText(spread([100])), '');
    assert.equal(noiseText(spread([0, 0, 0.3])), '');
  });

  it('reaches from least to greatest for five samples', () => {
    assert.deepEqual(spread([5, 1, 4, 2, 3]), { median: 3, low: 1, high: 5, count: 5 });
  });

  it('leaves the extreme one on each side out once eight samples allow it with nine in ten', () => {
    assert.deepEqual(spread([8, 1, 7, 2, 6, 3, 5, 4]), { median: 4.5, low: 2, high: 7, count: 8 });
  });

  it('of nothing is not a number and counts nothing', () => {
    assert.deepEqual(spread([]), { median: Number.NaN, low: Number.NaN, high: Number.NaN, count: 0 });
  });
});

describe('ratios', () => {
  it('are taken round by round, without the rounds that miss a side', () => {
    assert.deepEqual(ratios([2, undefined, 9], [1, 5, 3]), [2, 3]);
  });
});

describe('the verdict on a ratio', () => {
  it('says higher or lower when 1 is outside of the interval', () => {
    assert.equal(ratioVerdict(spread([1.1, 1.2, 1.15])), 'higher');
    assert.equal(ratioVerdict(spread([0.8, 0.9, 0.85])), 'lower');
  });

  it('says no difference when 1 is inside of a narrow interval', () => {
    assert.equal(ratioVerdict(spread([0.98, 1.01, 1.03])), 'no difference');
  });

  it('says too noisy when the interval is wide, and when there is none', () => {
    assert.equal(ratioVerdict(spread([0.6, 1.1, 1.7])), 'too noisy');
    assert.equal(ratioVerdict(spread([])), 'too noisy');
  });
});

describe('the verdict on a limit', () => {
  it('goes by the median when samples agree', () => {
    assert.equal(limitVerdict(spread([1.05, 1.09, 1.12]), { atMost: 1.1 }), 'reached');
    assert.equal(limitVerdict(spread([0.65, 0.68, 0.71]), { atLeast: 0.7 }), 'missed');
  });

  it('is unclear when a wide interval lies on both sides', () => {
    assert.equal(limitVerdict(spread([0.7, 1.0, 1.6]), { atMost: 1.1 }), 'unclear');
  });
});
