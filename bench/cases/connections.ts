// The same load over 1, 50 and 1,000 connections.
import type { BenchCase } from '../bench-case.ts';
import { GATEWAY } from '../subjects.ts';

export const connections: BenchCase = {
  name: 'connections',
  aim: 'How the cost of an event changes with the number of connections that are busy at once.',
  comparisons: [
    { metric: 'serverUs', of: '1,000 connections', against: '50 connections', limit: { atMost: 1.25 } },
    { metric: 'serverUs', of: '1 connection', against: '50 connections' },
  ],
  runs: (bench) => [
    bench.run({ label: '1 connection', subject: GATEWAY, options: { connections: 1 } }),
    bench.run({ label: '50 connections', subject: GATEWAY, options: { connections: 50 } }),
    bench.run({ label: '1,000 connections', subject: GATEWAY, options: { connections: 1000 } }),
  ],
};
