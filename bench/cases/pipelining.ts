// Compares several requests in flight on each of 8 connections with one request on each of 50.
import type { BenchCase } from '../bench-case.ts';
import { GATEWAY } from '../subjects.ts';

const DEPTHS = [4, 16, 64];

/** The maximum cost of `depth 16`, as a share of the cost of `depth 1`. The gate enforces this goal. */
export const PIPELINED_MAX = 0.55;

export const PIPELINED_LOAD = { connections: 8, depth: 16 };

export const pipelining: BenchCase = {
  name: 'pipelining',
  aim: 'CPU time of an event with 1, 4, 16 and 64 requests on a connection.',
  comparisons: DEPTHS.flatMap((depth) => [
    {
      ...({ metric: 'serverUs', of: `depth ${depth}`, against: 'depth 1' } as const),
      ...(depth === PIPELINED_LOAD.depth && { limit: { atMost: PIPELINED_MAX } }),
    },
    { metric: 'ratePerS', of: `depth ${depth}`, against: 'depth 1' } as const,
  ]),
  runs: (bench) => [
    bench.beside(
      [
        { label: 'depth 1', subject: GATEWAY },
        ...DEPTHS.map((depth) => ({ label: `depth ${depth}`, subject: GATEWAY, load: { ...PIPELINED_LOAD, depth } })),
      ],
      DEPTHS.map((depth) => ({ of: `depth ${depth}`, against: 'depth 1' })),
    ),
  ],
};
