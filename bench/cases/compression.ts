// What INGEST_QUEUE_COMPRESSION=zstd costs and saves: the same events through the gateway's queue code, Redis and a
// consumer into SQLite, compressed and as they are. The way of a request to the queue is left out, which makes the
// ratio of CPU time larger than it is.
import type { BenchCase } from '../bench-case.ts';
import type { Bench } from '../bench.ts';
import { webhookEvents } from '../load/webhooks.ts';
import { CpuBook } from '../process-cost.ts';
import { canonicalEvents, fillQueue, redisMemory, type Filling } from '../queue-filling.ts';
import { landWaiting } from './landing.ts';
import type { Run } from '../measure.ts';

interface Kind {
  readonly name: string;
  readonly events: number;
  readonly source: () => Required<Filling>['next'];
}

const KINDS: readonly Kind[] = [
  { name: 'webhooks of 9.5 kB', events: 10_000, source: webhooks },
  { name: 'events of 300 bytes', events: 50_000, source: canonicalEvents },
];
const [WEBHOOKS = ''] = KINDS.map(({ name }) => name);

export const compression: BenchCase = {
  name: 'compression',
  aim:
    'What an event takes of CPU time from the queue code to the warehouse, and of Redis’ memory, ' +
    'with bodies compressed and as they are.',
  roundsMax: 3,
  comparisons: KINDS.flatMap(({ name }) => {
    const [of, against] = [`${name}, zstd`, `${name}, none`];
    const goals = name === WEBHOOKS;
    return [
      { metric: 'bytesEach', of, against, ...(goals ? { limit: { atMost: 0.35 } } : {}) },
      { metric: 'totalUs', of, against, ...(goals ? { limit: { atMost: 1.5 } } : {}) },
    ] as const;
  }),
  runs: (bench) => KINDS.flatMap((kind) => (['none', 'zstd'] as const).map((how) => throughQueue(bench, kind, how))),
};

function throughQueue(bench: Bench, { name, events, source }: Kind, how: 'none' | 'zstd'): Run {
  const label = `${name}, ${how}`;
  return {
    label,
    execute: async () => {
      const redis = await bench.environment.redis();
      try {
        const empty = await redisMemory(redis);
        const [begun, own] = [new CpuBook(), process.cpuUsage()];
        await fillQueue(redis, events, { next: source(), compression: how });
        const { user, system } = process.cpuUsage(own);
        const filled = new CpuBook();
        const bytesEach = ((await redisMemory(redis)) - empty) / events;
        const landing = await landWaiting(bench, redis, events);
        const serverUs = (user + system) / events + landing.serverUs;
        const redisUs = ((filled.seconds(redis.pid) - begun.seconds(redis.pid)) / events) * 1e6 + landing.redisUs;
        const figures = {
          bytesEach,
          serverUs,
          redisUs,
          totalUs: serverUs + redisUs,
          foreignShare: landing.foreignShare,
        };
        return { label, figures, statuses: {}, curve: [], notes: ['the consumer’s start is in its figures'] };
      } finally {
        await redis.stop();
      }
    },
  };
}

/** Real payloads, over and over, each time with ids of their own. */
function webhooks(): () => { readonly id: string; readonly text: string } {
  const payloads = webhookEvents();
  let count = 0;
  return () => {
    const payload = payloads[count % payloads.length];
    if (payload === undefined) throw new Error('there are no payloads');
    const id = `${count}/${payload.id}`;
    count += 1;
    return { id, text: payload.body.replace(JSON.stringify(payload.id), JSON.stringify(id)) };
  };
}
