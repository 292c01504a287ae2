// The queue in partitions: on one server of a Redis Cluster, and on three.
import type { BenchCase, Comparison } from '../bench-case.ts';
import type { Bench } from '../bench.ts';
import type { RunningServer } from '../bench-environment.ts';
import { cpuObserver } from '../cpu-observer.ts';
import { startCluster } from '../peers/redis-cluster.ts';
import { GATEWAY, type Subject } from '../subjects.ts';
import type { JointRun, Run } from '../measure.ts';

const PARTITIONS = [1, 2, 4, 8];
const MASTERS = [1, 3];
const STEADY_PER_S = 2_000;
/** The two loads, as labels name them. */
const [SATURATED, STEADY] = ['saturated', '2,000/s'];

/** The masters' processes of each gateway. */
const masters = new WeakMap<RunningServer, readonly number[]>();

const onCluster = (partitions: number, count: number): Subject => ({
  name: `${partitions} on ${count}`,
  start: async (environment, redis, env) => {
    const cluster = await startCluster(environment, count);
    const queue = { INGEST_QUEUE_URI: cluster.uri, INGEST_QUEUE_PARTITIONS: String(partitions) };
    const gateway = await GATEWAY.start(environment, redis, { ...env, ...queue });
    const both: RunningServer = {
      ...gateway,
      stop: async () => {
        await gateway.stop();
        await cluster.stop();
      },
    };
    masters.set(
      both,
      cluster.masters.map(({ pid }) => pid),
    );
    return both;
  },
});

const places = MASTERS.flatMap((count) => PARTITIONS.map((partitions) => ({ partitions, count })));
const labelOf = (partitions: number, count: number, load: string): string =>
  `${partitions} on ${count === 1 ? 'one server' : `${count} masters`}, ${load}`;

function casesAt(load: string): readonly (Comparison & { readonly against: string })[] {
  const against = labelOf(1, 1, load);
  return places
    .map(({ partitions, count }) => ({ of: labelOf(partitions, count, load), partitions, count }))
    .filter(({ of }) => of !== against)
    .map(({ of, partitions, count }) => ({
      metric: 'serverUs',
      of,
      against,
      ...(partitions === 8 && count === 3 && load === SATURATED ? { limit: { atMost: 1.25 } } : {}),
    }));
}

const mastersOf = (gateway: RunningServer): readonly number[] => masters.get(gateway) ?? [];

/** All beside each other, each paired with one partition on one server. */
const saturated = (bench: Bench): JointRun =>
  bench.beside(
    places.map(({ partitions, count }) => ({
      label: labelOf(partitions, count, SATURATED),
      subject: onCluster(partitions, count),
      processes: (gateway) => ({ redisUs: mastersOf(gateway) }),
    })),
    casesAt(SATURATED).map(({ of, against }) => ({ of, against })),
  );

const steady = (bench: Bench): readonly Run[] =>
  places.map(({ partitions, count }) =>
    bench.run({
      label: labelOf(partitions, count, STEADY),
      subject: onCluster(partitions, count),
      observe: (gateway) => cpuObserver(mastersOf(gateway), 'redisUs'),
      ...{ load: 'paced.ts', options: { ratePerS: STEADY_PER_S } },
    }),
  );

export const partitions: BenchCase = {
  name: 'partitions',
  aim:
    'What an event costs the gateway and all Redis servers with 1 to 8 partitions, when they have all they can do, ' +
    'and at 2,000 a second.',
  roundsMax: 3,
  comparisons: [...casesAt(SATURATED), ...casesAt(STEADY)],
  runs: (bench) => [saturated(bench), ...steady(bench)],
};
