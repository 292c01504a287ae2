// Measures latency at fixed rates, from the time at which each request was due. The floor receives 50 % of the
// gateway's saturation rate, not of its own, so that both have the same load.
import type { BenchCase } from '../bench-case.ts';
import { FLOOR, GATEWAY } from '../subjects.ts';

export const latency: BenchCase = {
  name: 'latency',
  aim: 'Latency at 25, 50 and 80 % of the gateway’s saturation rate, in an open loop.',
  comparisons: [
    { metric: 'p99Ms', of: 'gateway 50 %', against: 'floor 50 %', limit: { atMost: 2 } },
    { metric: 'p99Ms', of: 'gateway 25 %', limit: { atMost: 200 } },
    { metric: 'p99Ms', of: 'gateway 50 %', limit: { atMost: 200 } },
    { metric: 'p99Ms', of: 'gateway 80 %', limit: { atMost: 200 } },
  ],
  runs: async (bench) => {
    const full = await bench.saturation();
    return [
      { subject: GATEWAY, percent: 25 },
      { subject: GATEWAY, percent: 50 },
      { subject: FLOOR, percent: 50 },
      { subject: GATEWAY, percent: 80 },
    ].map(({ subject, percent }) =>
      bench.run({
        label: `${subject.name} ${percent} %`,
        subject,
        load: 'paced.ts',
        options: { ratePerS: (full * percent) / 100 },
      }),
    );
  },
};
