import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { pairSamples, takeTurns, type PairSlices, type Slice } from '../../bench/turns.ts';

function sides(): { taken: string[]; side: (label: string) => { label: string; slice: () => Promise<Slice> } } {
  const taken: string[] = [];
  const side = (label: string) => ({
    label,
    slice: () => {
      taken.push(label);
      return Promise.resolve({ events: taken.length, figures: {} });
    },
  });
  return { taken, side };
}

const slices = (...serverUs: number[]): Slice[] => serverUs.map((us) => ({ events: 10, figures: { serverUs: us } }));

const pair = (of: readonly Slice[], against: readonly Slice[], name = 'new'): PairSlices => ({
  labels: { of: name, against: 'old' },
  slices: { of, against },
});

describe('turns', () => {
  it('alternate the order of the slices of a pair', async () => {
    const { taken, side } = sides();
    const [a, b, c] = [side('a'), side('b'), side('c')];
    const measured = await takeTurns(
      [
        { of: a, against: c },
        { of: b, against: c },
      ],
      0.1,
    );
    assert.deepEqual(taken, ['a', 'c', 'b', 'c', 'c', 'a', 'c', 'b']);
    assert.deepEqual(
      measured.map(({ labels, slices: { of, against } }) => [labels, of, against].flat()),
      [
        [{ of: 'a', against: 'c' }, ...[1, 6, 2, 5].map((events) => ({ events, figures: {} }))],
        [{ of: 'b', against: 'c' }, ...[3, 8, 4, 7].map((events) => ({ events, figures: {} }))],
      ],
    );
  });
});

describe('the samples of pairs', () => {
  const samples = pairSamples([pair(slices(20, 30), slices(10, 10)), pair(slices(5, 7), slices(10, 30), 'other')], 0.1);

  it('have the median over all slices of a label, and its number of events', () => {
    assert.deepEqual(
      samples.map(({ label, figures, statuses }) => ({ label, figures, statuses })),
      [
        { label: 'new', figures: { serverUs: 25, foreignShare: 0.1 }, statuses: { 202: 20 } },
        { label: 'old', figures: { serverUs: 10, foreignShare: 0.1 }, statuses: { 202: 40 } },
        { label: 'other', figures: { serverUs: 6, foreignShare: 0.1 }, statuses: { 202: 20 } },
      ],
    );
  });

  it('have the ratios to the other side of each pair, for common figures', () => {
    assert.deepEqual(
      samples.map(({ ratios }) => ratios),
      [{ old: { serverUs: 2.5 } }, {}, { old: { serverUs: (0.5 + 7 / 30) / 2 } }],
    );
    const more = [{ events: 10, figures: { serverUs: 20, redisUs: 5 } }];
    assert.deepEqual(pairSamples([pair(more, slices(10))], 0)[0]?.ratios, { old: { serverUs: 2 } });
  });
});
