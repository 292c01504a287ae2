// A gateway that waits for a replica of its Redis, beside one that does not, both with the replica there.
import { askOnce } from '../../lib/redis/server/ask-once.ts';
import type { BenchCase } from '../bench-case.ts';
import { GATEWAY, type Subject } from '../subjects.ts';
import { SYSTEM } from '../../test/support/system.ts';

const waitingFor = (replicas: number): Subject => ({
  name: `${replicas} replicas`,
  start: async (environment, redis, env) => {
    const replica = await environment.redis();
    await askOnce(SYSTEM, `redis://127.0.0.1:${replica.port}`, (server) =>
      server.send(['REPLICAOF', '127.0.0.1', String(redis.port)]),
    );
    // Without a replica that acknowledges it would not start.
    const waits = { INGEST_QUEUE_REPLICAS: String(replicas) };
    const gateway = await GATEWAY.start(environment, redis, { ...env, ...waits });
    const stop = async (): Promise<void> => {
      await gateway.stop();
      await replica.stop();
    };
    return { ...gateway, stop };
  },
});

export const replicas: BenchCase = {
  name: 'replicas',
  aim: 'What an acknowledgement of one replica (INGEST_QUEUE_REPLICAS=1) costs when the server has all it can do.',
  comparisons: [
    { metric: 'ratePerS', of: 'k = 1', against: 'k = 0', limit: { atLeast: 0.7 } },
    { metric: 'serverUs', of: 'k = 1', against: 'k = 0' },
    { metric: 'redisUs', of: 'k = 1', against: 'k = 0' },
    { metric: 'p99Ms', of: 'k = 1', against: 'k = 0' },
  ],
  runs: (bench) => [
    bench.run({ label: 'k = 0', subject: waitingFor(0) }),
    bench.run({ label: 'k = 1', subject: waitingFor(1) }),
  ],
};
