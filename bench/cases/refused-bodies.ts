// A producer that sends what fails the envelope's schema.
import type { BenchCase } from '../bench-case.ts';
import { GATEWAY } from '../subjects.ts';

export const refusedBodies: BenchCase = {
  name: 'refused-bodies',
  aim: 'Whether a body that is refused, with its list of faults, costs no more than one that is accepted.',
  comparisons: [{ metric: 'totalUs', of: 'refused', against: 'accepted' }],
  runs: (bench) => [
    bench.run({ label: 'accepted', subject: GATEWAY }),
    bench.run({ label: 'refused', subject: GATEWAY, options: { ids: 'invalid' }, expected: ['400'] }),
  ],
};
