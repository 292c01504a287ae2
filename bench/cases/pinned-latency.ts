// The same rate with the load on one core and server and Redis on another: what a wait is made of when nobody takes the
// other's turn.
import type { BenchCase } from '../bench-case.ts';
import { PINNING } from '../pinning.ts';
import { FLOOR, GATEWAY } from '../subjects.ts';

export const pinnedLatency: BenchCase = {
  name: 'pinned-latency',
  aim: 'The wait at 50 % of saturation with the generator on a core of its own, and server and Redis on another.',
  comparisons: [
    { metric: 'p99Ms', of: 'gateway', against: 'floor', limit: { atMost: 2 } },
    { metric: 'p99Ms', of: 'gateway', against: 'limit' },
    { metric: 'p50Ms', of: 'gateway', against: 'floor' },
  ],
  leftOut: () => (PINNING === undefined ? 'two cores and taskset are needed' : undefined),
  runs: async (bench) => {
    // Of the saturation on all cores: here Redis takes its share of the server's core.
    const options = { ratePerS: (await bench.saturation()) / 2 };
    const subjects = [GATEWAY, FLOOR, ...(bench.limit === undefined ? [] : [bench.limit])];
    return subjects.map((subject) =>
      bench.run({ label: subject.name, subject, load: 'paced.ts', options, pinned: true }),
    );
  },
};
