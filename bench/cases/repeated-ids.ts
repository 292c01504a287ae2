// Producers that retry what was accepted long ago.
import type { BenchCase } from '../bench-case.ts';
import { GATEWAY } from '../subjects.ts';

export const repeatedIds: BenchCase = {
  name: 'repeated-ids',
  aim: 'Whether an event that is a duplicate costs about as much as a new one: retries must not be an amplifier.',
  comparisons: [{ metric: 'totalUs', of: 'repeated', against: 'new' }],
  runs: (bench) => [
    bench.run({ label: 'new', subject: GATEWAY }),
    bench.run({ label: 'repeated', subject: GATEWAY, options: { ids: 'repeated' } }),
  ],
};
