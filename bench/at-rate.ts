// Several servers under the same load at the same time: at full speed, which also warms them up, then at a rate far
// below it. Whatever delays one of them and not the others is its own fault.
import { setTimeout as wait } from 'node:timers/promises';
import type { BenchEnvironment } from './bench-environment.ts';
import { clientOptions, openLoopFigures, runLoad, voidReason, type Duration } from './measure.ts';
import type { LoadResult } from './load/options.ts';
import { PacedLoad } from './load/paced-load.ts';
import type { Marks } from './load/tally.ts';
import { costFigures, CpuBook } from './process-cost.ts';
import { withServers, type Subject } from './subjects.ts';

export interface Lane {
  /** Accepted events per second in a closed loop. */
  readonly fullSpeedPerS: number;
  /** At the rate, from the time at which each request was due. */
  readonly p99Ms: number;
  readonly slowestMs: number;
  readonly offeredShare: number;
  /** CPU time per event of the server and its Redis, at the rate. */
  readonly totalUs: number;
  /** Wrong answers and broken connections, at full speed or at the rate. */
  readonly failure: string | undefined;
}

export interface AtRate {
  /** In the order of the subjects. */
  readonly lanes: readonly Lane[];
  readonly foreignShare: number;
}

const NO_MARKS: Marks = { warm: () => undefined, done: () => undefined };

/** Rejects only if a server does not start. */
export function atRate(
  environment: BenchEnvironment,
  subjects: readonly Subject[],
  ratePerS: number,
  { fullSpeedSeconds, ...duration }: Duration & { readonly fullSpeedSeconds: number },
): Promise<AtRate> {
  return withServers(environment, subjects, async (started) => {
    const closed = await settled(started, ({ server }) =>
      runLoad(
        'closed-loop.ts',
        clientOptions(environment, server, {}, { warmupSeconds: 0, seconds: fullSpeedSeconds }),
        NO_MARKS,
      ),
    );
    const loads = await settled(started, ({ server }) =>
      PacedLoad.open(clientOptions(environment, server, { ratePerS }, duration)),
    );
    const books = cpuBooks(duration);
    const open = await settled(loads, (load) => valueOf(load).run(NO_MARKS));
    const [before, after] = await books;
    const lanes = started.map(({ server, redis }, at): Lane => {
      const [full, paced] = [resultOf(closed[at]), resultOf(open[at])];
      const failures = [full.failure, paced.failure].filter((one) => one !== undefined);
      return {
        fullSpeedPerS: (full.accepted / full.elapsedMs) * 1000,
        p99Ms: paced.latency.p99,
        slowestMs: paced.latency.max,
        offeredShare: openLoopFigures(paced, ratePerS)['offeredShare'] ?? 0,
        totalUs: costFigures(before, after, server.pid, redis.pid, paced.accepted).totalUs,
        failure: failures.length === 0 ? undefined : failures.join(', '),
      };
    });
    return { lanes, foreignShare: after.foreignShare(before, process.pid) };
  });
}

const settled = <T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<PromiseSettledResult<R>[]> =>
  Promise.allSettled(items.map(async (item) => work(item)));

function valueOf<T>(result: PromiseSettledResult<T>): T {
  if (result.status === 'rejected') throw result.reason;
  return result.value;
}

async function cpuBooks({ warmupSeconds, seconds }: Duration): Promise<readonly [CpuBook, CpuBook]> {
  await wait(warmupSeconds * 1000);
  const before = new CpuBook();
  await wait(seconds * 1000);
  return [before, new CpuBook()];
}

interface LaneResult extends LoadResult {
  readonly accepted: number;
  readonly failure: string | undefined;
}

/** A load that could not be sent is the server's failure: the generator offered all of it. */
function resultOf(result: PromiseSettledResult<LoadResult> | undefined): LaneResult {
  if (result?.status === 'fulfilled') {
    const accepted = result.value.statuses['202'] ?? 0;
    return { ...result.value, accepted, failure: voidReason(result.value, ['202'], accepted) };
  }
  const none = { p50: Number.NaN, p99: Number.NaN, max: Number.NaN };
  const failure = String(result?.reason);
  return { statuses: {}, offered: Infinity, elapsedMs: 1, latency: none, accepted: 0, failure };
}
