// What is told of a case, from samples that are made up here.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Sample } from '../../bench/measure.ts';
import { summarize } from '../../bench/summary.ts';

const sample = (label: string, serverUs: number, more: Partial<Sample> = {}): Sample => ({
  ...{ label, figures: { serverUs }, statuses: {}, curve: [], notes: [] },
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

describe('a ratio that is told', () => {
  const old = [sample('old', 10), sample('old', 20)];

  it('is taken of the figures of each round', () => {
    assert.equal(ratio([sample('new', 20), sample('new', 60)], old), 2.5);
  });

  it('is the one that was taken where the servers stood beside each other', () => {
    const beside = [1.25, 1.5].map((serverUs) => sample('new', 30, { ratios: { old: { serverUs } } }));
    assert.equal(ratio(beside, old), 1.375);
  });

  it('leaves out a round that is void', () => {
    const [first, second] = [1.25, 1.5].map((serverUs) => sample('new', 30, { ratios: { old: { serverUs } } }));
    assert.ok(first !== undefined && second !== undefined);
    assert.equal(ratio([first, { ...second, figures: {}, ratios: {}, void: 'a broken connection' }], old), 1.25);
  });
});
