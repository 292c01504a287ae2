// The dispatcher of RFC 014 between the gateway and two Redis servers, beside the gateway on one.
import type { BenchCase } from '../bench-case.ts';
import type { RunningServer } from '../bench-environment.ts';
import type { MeteredProcesses } from '../sliced-server.ts';
import { GATEWAY, type Subject } from '../subjects.ts';

/** What each gateway was started with: a dispatcher, and the Redis servers of its queues. */
const behind = new WeakMap<RunningServer, { dispatcher: RunningServer; queues: readonly RunningServer[] }>();

const DISPATCHED: Subject = {
  name: 'dispatched',
  start: async (environment, redis, env) => {
    const queues = [await environment.redis(), await environment.redis()] as const;
    const dispatcher = await environment.dispatcher(...queues);
    const uri = { INGEST_QUEUE_URI: `dispatcher://127.0.0.1:${dispatcher.port}` };
    const gateway = await environment.gateway(redis, { ...env, ...uri });
    const all: RunningServer = {
      ...gateway,
      stop: async () => {
        for (const server of [gateway, dispatcher, ...queues]) await server.stop();
      },
    };
    behind.set(all, { dispatcher, queues });
    return all;
  },
};

function processesBehind(gateway: RunningServer): MeteredProcesses {
  const { dispatcher, queues = [] } = behind.get(gateway) ?? {};
  return {
    dispatcherUs: dispatcher === undefined ? [] : [dispatcher.pid],
    redisUs: queues.map(({ pid }) => pid),
  };
}

export const dispatcher: BenchCase = {
  name: 'dispatcher',
  aim:
    'What an event costs the dispatcher when everything has all it can do, ' +
    'and what the gateway pays for having one.',
  comparisons: [
    { metric: 'dispatcherUs', of: 'dispatched', limit: { atMost: 10 } },
    { metric: 'serverUs', of: 'dispatched', against: 'gateway' },
    { metric: 'ratePerS', of: 'dispatched', against: 'gateway' },
  ],
  runs: (bench) => [
    bench.beside(
      [
        { label: 'gateway', subject: GATEWAY },
        { label: 'dispatched', subject: DISPATCHED, processes: processesBehind },
      ],
      [{ of: 'dispatched', against: 'gateway' }],
    ),
  ],
};
