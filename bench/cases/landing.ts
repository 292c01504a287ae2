// From the queue into the warehouse: one consumer, the embedded warehouse, a queue that was filled before.
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import type { BenchCase } from '../bench-case.ts';
import type { Bench } from '../bench.ts';
import { freePort, ROOT, type RunningServer } from '../bench-environment.ts';
import type { Sample } from '../measure.ts';
import { CpuBook } from '../process-cost.ts';
import { fillQueue, redisCommand } from '../queue-filling.ts';

const EVENTS = 50_000;
/** What comes at 2,000 events a second while the warehouse is unavailable for ten minutes. */
const BACKLOG = 1_200_000;
const DEADLINE_MS = 180_000;

export const landing: BenchCase = {
  name: 'landing',
  aim:
    `How fast one consumer lands ${EVENTS.toLocaleString('en-US')} waiting events in SQLite, ` +
    'and the backlog of ten minutes at 2,000 a second; what each costs.',
  roundsMax: 3,
  comparisons: [
    { metric: 'ratePerS', of: 'sqlite' },
    { metric: 'ratePerS', of: 'backlog' },
  ],
  runs: (bench) => [
    { label: 'sqlite', execute: () => land(bench, 'sqlite', EVENTS) },
    { label: 'backlog', execute: () => land(bench, 'backlog', BACKLOG) },
  ],
};

async function land(bench: Bench, label: string, count: number): Promise<Sample> {
  const redis = await bench.environment.redis();
  try {
    await fillQueue(redis, count);
    const figures = await landWaiting(bench, redis, count);
    return { label, figures, statuses: {}, curve: [], notes: ['the consumer’s start is in its figures'] };
  } finally {
    await redis.stop();
  }
}

/** Lands the `count` events that wait, by a consumer that is started for it; what each took. */
export async function landWaiting(bench: Bench, redis: RunningServer, count: number) {
  const port = await freePort();
  const before = new CpuBook();
  const consumer = await bench.environment.program('consumer', join(ROOT, 'bin/ingest-consumer'), [], port, {
    INGEST_QUEUE_URI: `redis://127.0.0.1:${redis.port}`,
    INGEST_WAREHOUSE_URI: `sqlite:${join(mkdtempSync(join(bench.environment.folder, 'warehouse-')), 'events.db')}`,
    INGEST_CONSUMER_ADDR: `127.0.0.1:${port}`,
  });
  try {
    await landed(redis);
    const after = new CpuBook();
    const perEvent = (pid: number): number => ((after.seconds(pid) - before.seconds(pid)) / count) * 1e6;
    const [serverUs, redisUs] = [perEvent(consumer.pid), perEvent(redis.pid)];
    return {
      ratePerS: (count / (after.atMs - before.atMs)) * 1000,
      serverUs,
      redisUs,
      totalUs: serverUs + redisUs,
      foreignShare: after.foreignShare(before, process.pid),
    };
  } finally {
    await consumer.stop();
  }
}

/** Resolves when the group has read and acknowledged everything. */
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
