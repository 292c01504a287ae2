// Measures several running servers in alternating slices of time (turns.ts explains why). The load runs in this
// process. A server is idle while its load is off.
import type { BenchEnvironment, RunningServer } from './bench-environment.ts';
import type { Duration } from './measure.ts';
import { SwitchedLoad } from './load/switched-load.ts';
import { CANONICAL_BODY_BYTES, CANONICAL_CONNECTIONS } from './load/workload.ts';
import { CpuBook, cpuSeconds } from './process-cost.ts';
import { withServers, type Started, type Subject } from './subjects.ts';
import { takeTurns, warmUp, type Pair, type PairSlices, type Sliced } from './turns.ts';

export interface SidePlan {
  readonly label: string;
  readonly subject: Subject;
  /** The default load is the canonical workload. */
  readonly load?: { readonly connections: number; readonly depth: number };
}

export interface Beside {
  readonly pairs: readonly PairSlices[];
  /** The share of the CPU time of all cores that other processes used. */
  readonly foreignShare: number;
}

/**
 * Starts a fresh server and a fresh Redis for each plan, then measures `pairs`, which refer to plans by label. The
 * duration applies to each side of a pair. Rejects if an answer is not 202 or a connection breaks.
 */
export async function beside(
  environment: BenchEnvironment,
  plans: readonly SidePlan[],
  pairs: readonly Pair<string>[],
  { warmupSeconds, seconds }: Duration,
): Promise<Beside> {
  const loads: SwitchedLoad[] = [];
  const sides = new Map<string, Sliced>();
  const side = (label: string): Sliced => {
    const found = sides.get(label);
    if (found === undefined) throw new Error(`no side ${label} to pair`);
    return found;
  };
  const measured = async (started: readonly Started[]): Promise<Beside> => {
    // Opens connections only after all servers have started. Otherwise, the connections to the first server would be
    // idle for seconds.
    for (const [at, { server, redis }] of started.entries()) {
      const { label, load: shape } = plans[at] as SidePlan;
      const load = await SwitchedLoad.open({
        ...environment.certificates.client,
        ...{ port: server.port, bodyBytes: CANONICAL_BODY_BYTES },
        ...(shape ?? { connections: CANONICAL_CONNECTIONS, depth: 1 }),
      });
      loads.push(load);
      sides.set(label, sliced(label, load, server, redis));
    }
    // Gives V8 time to compile the hot code and lets garbage collection settle.
    await warmUp([...sides.values()], warmupSeconds);
    const before = new CpuBook();
    const taken = await takeTurns(
      pairs.map(({ of, against }) => ({ of: side(of), against: side(against) })),
      seconds,
    );
    return { pairs: taken, foreignShare: new CpuBook().foreignShare(before, process.pid) };
  };
  const subjects = plans.map(({ subject }) => subject);
  return withServers(environment, subjects, (started) =>
    measured(started).finally(() => {
      for (const load of loads) load.close();
    }),
  );
}

/** Measures the CPU time per event of a server and its Redis in each slice, and the heap that node allocates. */
function sliced(label: string, load: SwitchedLoad, server: RunningServer, redis: RunningServer): Sliced {
  const used = () => ({ server: cpuSeconds(server.pid), redis: cpuSeconds(redis.pid), atMs: performance.now() });
  return {
    label,
    slice: async (ms) => {
      const heapBefore = await server.heapReport?.();
      const before = used();
      const events = await load.run(ms).catch((cause: Error) => {
        throw new Error(`${label}: ${cause.message}`);
      });
      const after = used();
      const heapAfter = await server.heapReport?.();
      const heap =
        heapAfter === undefined || heapBefore === undefined
          ? {}
          : { heapBytes: (heapAfter.allocatedBytes - heapBefore.allocatedBytes) / events };
      const serverUs = ((after.server - before.server) / events) * 1e6;
      const redisUs = ((after.redis - before.redis) / events) * 1e6;
      const ratePerS = (events / (after.atMs - before.atMs)) * 1000;
      return { events, figures: { ratePerS, serverUs, redisUs, totalUs: serverUs + redisUs, ...heap } };
    },
  };
}
