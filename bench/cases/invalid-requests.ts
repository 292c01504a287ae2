// Events that the envelope's schema refuses, among good ones.
import type { BenchCase } from '../bench-case.ts';
import { GATEWAY } from '../subjects.ts';

export const invalidRequests: BenchCase = {
  name: 'invalid-requests',
  aim: 'What an accepted event costs, refusals included, when 5 and 50 % of the requests are invalid.',
  comparisons: [
    { metric: 'serverUs', of: '5 % invalid', against: 'none invalid' },
    { metric: 'serverUs', of: '50 % invalid', against: 'none invalid' },
  ],
  runs: (bench) => [
    bench.run({ label: 'none invalid', subject: GATEWAY }),
    ...[5, 50].map((percent) =>
      bench.run({
        label: `${percent} % invalid`,
        subject: GATEWAY,
        options: { invalidShare: percent / 100 },
        expected: ['202', '400'],
      }),
    ),
  ],
};
