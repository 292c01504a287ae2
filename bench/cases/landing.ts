import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import type { BenchCase } from '../bench-case.ts';
import type { Bench } from '../bench.ts';
import type { RunningServer } from '../bench-environment.ts';
import { runOf, type Sample } from '../measure.ts';
import { costFigures, CpuBook } from '../process-cost.ts';
import { fillQueue, redisCommand } from '../queue-filling.ts';
import { eventually } from '../../test/support/scope.ts';

/** Ten minutes' worth of events at 2,000 events/s. */
const EVENTS = 1_200_000;
const DEADLINE_MS = 180_000;

export const landing: BenchCase = {
  name: 'landing',
  aim: `Rate and CPU time of one consumer that starts and lands ${EVENTS.toLocaleString('en-US')} events in SQLite.`,
  roundsMax: 3,
  comparisons: [{ metric: 'ratePerS', of: 'consumer' }],
  runs: (bench) => [runOf('consumer', () => land(bench))],
};

async function land({ environment }: Bench): Promise<Sample> {
  const redis = await environment.redis();
  try {
    await fillQueue(redis, EVENTS);
    const before = new CpuBook();
    const folder = mkdtempSync(join(environment.folder, 'warehouse-'));
    const consumer = await environment.consumer(redis, `sqlite:${join(folder, 'events.db')}`);
    try {
      await landed(redis);
      const after = new CpuBook();
      const ratePerS = (EVENTS / (after.atMs - before.atMs)) * 1000;
      const figures = { ratePerS, ...costFigures(before, after, consumer.pid, redis.pid, EVENTS) };
      return { label: 'consumer', figures, statuses: {} };
    } finally {
      await consumer.stop();
    }
  } finally {
    await redis.stop();
  }
}

/** Waits until the consumer group has acknowledged all events. */
const landed = (redis: RunningServer): Promise<boolean> =>
  eventually(
    'all events have landed',
    async () => {
      const [group] = (await redisCommand(redis, 'XINFO', 'GROUPS', 'ingest')) as unknown[][];
      return ['pending', 'lag'].every((name) => group?.[group.indexOf(name) + 1] === 0);
    },
    DEADLINE_MS,
  );
