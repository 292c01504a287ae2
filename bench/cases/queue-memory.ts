// Measures Redis memory per queued event with Redis' default settings, with the settings of the runbook, and for the
// same bodies in a plain stream. deploy/RUNBOOK.md quotes these figures.
import type { BenchCase } from '../bench-case.ts';
import type { Bench } from '../bench.ts';
import { runOf, type Run } from '../measure.ts';
import { fillQueue, fillStream, redisMemory } from '../queue-filling.ts';

const EVENTS = 200_000;
const RUNBOOK_SETTINGS = ['--stream-node-max-bytes', '32768', '--stream-node-max-entries', '1000'];

export const queueMemory: BenchCase = {
  name: 'queue-memory',
  aim: `Memory of Redis for each of ${EVENTS.toLocaleString('en-US')} queued events of about 300 and 1,000 bytes.`,
  roundsMax: 1,
  comparisons: [
    { metric: 'bytesEach', of: '300 bytes, default', against: '300 bytes, stream alone', limit: { atMost: 1.4 } },
  ],
  runs: (bench) => [
    memoryRun(bench, '300 bytes, stream alone', 300, fillStream),
    ...[300, 1_000].flatMap((bytes) => [
      memoryRun(bench, `${bytes} bytes, default`, bytes, fillQueue),
      memoryRun(bench, `${bytes} bytes, runbook`, bytes, fillQueue, RUNBOOK_SETTINGS),
    ]),
  ],
};

function memoryRun(
  bench: Bench,
  label: string,
  bytes: number,
  fill: typeof fillStream,
  settings: readonly string[] = [],
): Run {
  return runOf(label, async () => {
    const redis = await bench.environment.redis(settings);
    try {
      const before = await redisMemory(redis);
      await fill(redis, EVENTS, bytes);
      const bytesEach = ((await redisMemory(redis)) - before) / EVENTS;
      return { label, figures: { bytesEach }, statuses: {} };
    } finally {
      await redis.stop();
    }
  });
}
