// Sends events at twice the rate that the gateway can accept, whether it answers or not.
import type { BenchCase } from '../bench-case.ts';
import { GATEWAY } from '../subjects.ts';

const CONNECTIONS = 400;
/** Under this load, V8's heap reaches its working size within five seconds (146 to 261 MB). */
const WARMUP_SECONDS = 6;

export const overload: BenchCase = {
  name: 'overload',
  aim: 'Accepted and refused events, latency and memory at twice the saturation rate.',
  comparisons: [
    { metric: 'ratePerS', of: 'twice saturation', against: 'saturation', limit: { atLeast: 0.9 } },
    { metric: 'p99Ms', of: 'twice saturation', limit: { atMost: 200 } },
    { metric: 'answeredShare', of: 'twice saturation', limit: { atLeast: 0.98 } },
    { metric: 'refusedShare', of: 'twice saturation' },
    { metric: 'residentGrowth', of: 'twice saturation', limit: { atMost: 1.1 } },
  ],
  runs: async (bench) => [
    bench.run({ label: 'saturation', subject: GATEWAY }),
    bench.run({
      label: 'twice saturation',
      subject: GATEWAY,
      options: { connections: CONNECTIONS, ratePerS: 2 * (await bench.saturation()) },
      expected: ['202', '503'],
      warmupSeconds: WARMUP_SECONDS,
    }),
  ],
};
