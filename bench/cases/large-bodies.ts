import type { BenchCase } from '../bench-case.ts';
import { FASTIFY, FLOOR, GATEWAY } from '../subjects.ts';

export const largeBodies: BenchCase = {
  name: 'large-bodies',
  aim: 'CPU time of an event of 64 KiB.',
  comparisons: [
    { metric: 'serverUs', of: 'gateway', against: 'floor' },
    { metric: 'totalUs', of: 'gateway', against: 'fastify' },
  ],
  runs: (bench) =>
    [GATEWAY, FLOOR, FASTIFY].map((subject) =>
      bench.run({ label: subject.name, subject, options: { bodyBytes: 65_536, connections: 16 } }),
    ),
};
