// The dispatcher of RFC 014 between the gateway and two Redis servers, beside the gateway on one.
import type { BenchCase } from '../bench-case.ts';
import type { RunningServer } from '../bench-environment.ts';
import { cpuObserver } from '../cpu-observer.ts';
import { GATEWAY, type Subject } from '../subjects.ts';

/** The dispatcher that each gateway was started with. */
const dispatchers = new WeakMap<RunningServer, RunningServer>();

const DISPATCHED: Subject = {
  name: 'dispatched',
  start: async (environment, redis, env) => {
    const dispatcher = await environment.dispatcher(redis);
    const uri = { INGEST_QUEUE_URI: `dispatcher://127.0.0.1:${dispatcher.port}` };
    const gateway = await environment.gateway(redis, { ...env, ...uri });
    const both: RunningServer = {
      ...gateway,
      stop: async () => {
        await gateway.stop();
        await dispatcher.stop();
      },
    };
    dispatchers.set(both, dispatcher);
    return both;
  },
};

export const dispatcher: BenchCase = {
  name: 'dispatcher',
  aim: 'What an event costs the dispatcher when everything has all it can do, and what the gateway pays for having one.',
  comparisons: [
    { metric: 'dispatcherUs', of: 'dispatched', limit: { atMost: 10 } },
    { metric: 'serverUs', of: 'dispatched', against: 'gateway' },
    { metric: 'ratePerS', of: 'dispatched', against: 'gateway' },
  ],
  runs: (bench) => [
    bench.run({ label: 'gateway', subject: GATEWAY }),
    bench.run({
      label: 'dispatched',
      subject: DISPATCHED,
      observe: (gateway) => cpuObserver([dispatchers.get(gateway)?.pid ?? -1], 'dispatcherUs'),
    }),
  ],
};
