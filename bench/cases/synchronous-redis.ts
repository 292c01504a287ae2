// A Redis that syncs its file before it answers.
import type { BenchCase } from '../bench-case.ts';
import { GATEWAY } from '../subjects.ts';

export const synchronousRedis: BenchCase = {
  name: 'synchronous-redis',
  aim:
    'How much of the accepted rate is left with appendfsync always: ' +
    'events that travel together are synced together.',
  comparisons: [{ metric: 'ratePerS', of: 'always', against: 'everysec', limit: { atLeast: 0.7 } }],
  runs: (bench) =>
    (['everysec', 'always'] as const).map((appendfsync) =>
      bench.run({ label: appendfsync, subject: GATEWAY, appendfsync }),
    ),
};
