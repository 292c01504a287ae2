// The canonical workload as fast as it goes, for the gateway, the floor and every peer.
import type { BenchCase } from '../bench-case.ts';
import { FASTIFY, FLOOR, GATEWAY } from '../subjects.ts';

export const saturation: BenchCase = {
  name: 'saturation',
  aim: 'What one event costs in CPU time when the server has all it can do, in a closed loop over 50 connections.',
  comparisons: [
    { metric: 'serverUs', of: 'gateway', against: 'floor', limit: { atMost: 1.1 } },
    { metric: 'serverUs', of: 'gateway', against: 'limit', limit: { atMost: 1.8 } },
    { metric: 'totalUs', of: 'gateway', against: 'nginx', limit: { atMost: 0.9 } },
    { metric: 'totalUs', of: 'gateway', against: 'fastify', limit: { atMost: 0.6 } },
    { metric: 'redisUs', of: 'gateway', against: 'fastify' },
    { metric: 'ratePerS', of: 'gateway', against: 'floor' },
  ],
  runs: (bench) =>
    [GATEWAY, FLOOR, bench.limit, bench.nginx, FASTIFY].flatMap((subject) => {
      if (subject === undefined) return [];
      const run = bench.run({ label: subject.name, subject });
      return {
        label: run.label,
        execute: async () => {
          const sample = await run.execute();
          const rate = sample.figures['ratePerS'];
          if (subject === GATEWAY && sample.void === undefined && rate !== undefined) bench.noteSaturation(rate);
          return sample;
        },
      };
    }),
};
