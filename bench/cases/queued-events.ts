// The cost of an event when a million wait in the queue, against ten thousand.
import type { BenchCase } from '../bench-case.ts';
import { fillQueue } from '../queue-filling.ts';
import { GATEWAY } from '../subjects.ts';

export const queuedEvents: BenchCase = {
  name: 'queued-events',
  aim: 'Whether the cost of an event stays as it is while the queue and its id index grow from 10,000 to 1,000,000 events.',
  comparisons: [
    { metric: 'totalUs', of: '1,000,000 queued', against: '10,000 queued', limit: { atMost: 1.05 } },
    { metric: 'serverUs', of: '1,000,000 queued', against: '10,000 queued' },
    { metric: 'redisUs', of: '1,000,000 queued', against: '10,000 queued' },
  ],
  runs: (bench) =>
    [10_000, 1_000_000].map((count) =>
      bench.run({
        label: `${count.toLocaleString('en-US')} queued`,
        subject: GATEWAY,
        prepare: (redis) => fillQueue(redis, count),
      }),
    ),
};
