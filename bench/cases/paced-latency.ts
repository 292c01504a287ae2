// Latency at half load once more, by a schedule that has no bursts: autocannon sends each client's share of a second at
// full speed and then waits, and that shape is in its percentiles.
import type { BenchCase } from '../bench-case.ts';
import { FLOOR, GATEWAY } from '../subjects.ts';

export const pacedLatency: BenchCase = {
  name: 'paced-latency',
  aim:
    'The same wait at 50 % of saturation when requests come evenly, ' +
    'each latency counted from when its request was due.',
  comparisons: [{ metric: 'p99Ms', of: 'gateway', against: 'floor', limit: { atMost: 2 } }],
  runs: async (bench) => {
    const options = { ratePerS: (await bench.saturation()) / 2 };
    return [GATEWAY, FLOOR].map((subject) => bench.run({ label: subject.name, subject, load: 'paced.ts', options }));
  },
};
