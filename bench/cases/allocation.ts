// Measures the JavaScript heap that one event allocates, at saturation. V8 counts the bytes itself
// (`total_allocated_bytes` of `v8.getHeapStatistics`), so the figure hardly varies.
import type { BenchCase } from '../bench-case.ts';
import { FASTIFY, FLOOR, GATEWAY } from '../subjects.ts';

const LABELS = [GATEWAY, FLOOR, FASTIFY].map((subject) => ({ label: subject.name, subject }));

export const allocation: BenchCase = {
  name: 'allocation',
  aim: 'JavaScript heap that one event allocates.',
  roundsMax: 3,
  comparisons: [
    { metric: 'heapBytes', of: 'gateway', limit: { atMost: 4_000 } },
    { metric: 'heapBytes', of: 'gateway', against: 'floor' },
    { metric: 'heapBytes', of: 'gateway', against: 'fastify' },
  ],
  runs: (bench) => [
    bench.beside(LABELS, [
      { of: 'gateway', against: 'floor' },
      { of: 'gateway', against: 'fastify' },
    ]),
  ],
};
