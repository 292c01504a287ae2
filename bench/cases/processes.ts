// Gateways that share one port (SO_REUSEPORT).
import type { BenchCase } from '../bench-case.ts';
import type { RunningServer } from '../bench-environment.ts';
import { cpuObserver } from '../cpu-observer.ts';
import { GATEWAY, type Subject } from '../subjects.ts';

/** The second process of each first one. */
const seconds = new WeakMap<RunningServer, RunningServer>();

const TWO: Subject = {
  name: 'two',
  start: async (environment, redis, env) => {
    const shared = { ...env, INGEST_GATEWAY_REUSE_PORT: '1' };
    const first = await environment.gateway(redis, shared);
    const address = { INGEST_GATEWAY_ADDR: `127.0.0.1:${first.port}` };
    const second = await environment.gateway(redis, { ...shared, ...address });
    const stop = async (): Promise<void> => void (await Promise.all([first.stop(), second.stop()]));
    const both: RunningServer = { ...first, stop };
    seconds.set(both, second);
    return both;
  },
};

export const processes: BenchCase = {
  name: 'processes',
  aim: 'Whether a second process on the port takes more events; it needs cores of its own, beside those of Redis and the load.',
  comparisons: [
    { metric: 'serverUs', of: '2 processes', against: '1 process' },
    { metric: 'ratePerS', of: '2 processes', against: '1 process' },
    { metric: 'p99Ms', of: '2 processes', against: '1 process' },
  ],
  runs: (bench) => [
    bench.run({ label: '1 process', subject: GATEWAY }),
    bench.run({
      label: '2 processes',
      subject: TWO,
      observe: (first) => cpuObserver([first.pid, seconds.get(first)?.pid ?? -1], 'serverUs'),
    }),
  ],
};
