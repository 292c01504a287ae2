// What Redis keeps for each queued event, stream and id index and all, against the same bodies in a stream alone.
import type { BenchCase } from '../bench-case.ts';
import type { Bench } from '../bench.ts';
import type { RunningServer } from '../bench-environment.ts';
import { fillQueue, fillStream, redisMemory } from '../queue-filling.ts';
import type { Run } from '../measure.ts';

const EVENTS = 200_000;

export const queueMemory: BenchCase = {
  name: 'queue-memory',
  aim:
    'What Redis keeps in memory for each queued event of about 300 bytes, ' +
    `over ${EVENTS.toLocaleString('en-US')} of them.`,
  roundsMax: 1,
  comparisons: [{ metric: 'bytesEach', of: 'gateway’s queue', against: 'stream alone', limit: { atMost: 1.4 } }],
  runs: (bench) => [memoryRun(bench, 'gateway’s queue', fillQueue), memoryRun(bench, 'stream alone', fillStream)],
};

function memoryRun(bench: Bench, label: string, fill: (redis: RunningServer, count: number) => Promise<void>): Run {
  return {
    label,
    execute: async () => {
      const redis = await bench.environment.redis();
      try {
        const before = await redisMemory(redis);
        await fill(redis, EVENTS);
        const bytesEach = ((await redisMemory(redis)) - before) / EVENTS;
        return { label, figures: { bytesEach }, statuses: {}, curve: [], notes: [] };
      } finally {
        await redis.stop();
      }
    },
  };
}
