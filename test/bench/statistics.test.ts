import assert from 'node:assert/strict';
import { it } from 'node:test';
import { limitVerdict, median, spread } from '../../bench/statistics.ts';

it('a spread has the median and the range', () => {
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([4, 1, 3, 2]), 2.5);
  assert.deepEqual(spread([5, 1, 4, 2, 3]), { median: 3, low: 1, high: 5, count: 5 });
  assert.deepEqual(spread([]), { median: Number.NaN, low: Number.NaN, high: Number.NaN, count: 0 });
});

it('the verdict on a limit is unclear if a wide interval contains it', () => {
  assert.equal(limitVerdict(spread([1.05, 1.09, 1.12]), { atMost: 1.1 }), 'reached');
  assert.equal(limitVerdict(spread([0.65, 0.68, 0.71]), { atLeast: 0.7 }), 'missed');
  assert.equal(limitVerdict(spread([0.7, 1.0, 1.6]), { atMost: 1.1 }), 'unclear');
  assert.equal(limitVerdict(spread([0.95, 1.0, 1.15]), { atMost: 1.1 }), 'reached', 'narrow: 10 % on each side');
  assert.equal(limitVerdict(spread([]), { atMost: 1.1 }), 'unclear');
});
