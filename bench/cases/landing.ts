import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import type { BenchCase } from '../bench-case.ts';
import type { Bench } from '../bench.ts';
import type { RunningServer } from '../bench-environment.ts';
import type { Sample } from '../measure.ts';
import { costFigures, CpuBook } from '../process-cost.ts';
import { fillQueue, redisCommand } from '../queue-filling.ts';

/** Ten minutes' worth of events at 2,000 events/s. */
const EVENTS = 1_200_000;
const DEADLINE_MS = 180_000;

export const landing: BenchCase = {
  name: 'landing',
  aim: `Rate and CPU time of one consumer that lands ${EVENTS.toLocaleString('en-US')} waiting events in SQLite.`,
  roundsMax: 3,
  comparisons: [{ metric: 'ratePerS', of: 'consumer' }],
  runs: (bench) => [{ label: 'consumer', execute: () => land(bench) }],
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
      return { label: 'consumer', figures, statuses: {}, notes: ['the start of the consumer is included'] };
    } finally {
      await consumer.stop();
    }
  } finally {
    await redis.stop();
  }
}

/** Waits until the consumer group has acknowledged all events. */
async function landed(redis: RunningServer): Promise<void> {
  const deadline = performance.now() + DEADLINE_MS;
  while (performance.now() < deadline) {
    const groups = await redisCommand(redis, ['XINFO', 'GROUPS', 'ingest']);
    const fields = Array.isArray(groups) ? (groups[0] as readonly unknown[] | undefined) : undefined;
    const field = (name: string): unknown => fields?.[fields.indexOf(name) + 1];
    if (fields !== undefined && field('lag') === 0 && field('pending') === 0) return;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  throw new Error(`the consumer did not land all events in ${DEADLINE_MS / 1000} s`);
}
