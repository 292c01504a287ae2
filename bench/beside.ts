// Measures several running servers in alternating slices of time (turns.ts explains why). The load runs in this
// process. A server is idle while its load is off.
import type { BenchEnvironment, RunningServer } from './bench-environment.ts';
import type { Duration } from './measure.ts';
import { CpuBook } from './process-cost.ts';
import { SlicedServer, type LoadShape } from './sliced-server.ts';
import type { Subject } from './subjects.ts';
import { takeTurns, warmUp, type Pair, type PairSlices } from './turns.ts';

export interface SidePlan {
  readonly label: string;
  readonly subject: Subject;
  readonly load?: LoadShape;
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
  const started: RunningServer[] = [];
  const sides = new Map<string, SlicedServer>();
  const start = async (starting: Promise<RunningServer>): Promise<RunningServer> => {
    const server = await starting;
    started.push(server);
    return server;
  };
  const side = (label: string): SlicedServer => {
    const found = sides.get(label);
    if (found === undefined) throw new Error(`no side ${label} to pair`);
    return found;
  };
  try {
    const servers: (readonly [SidePlan, RunningServer, RunningServer])[] = [];
    for (const plan of plans) {
      const redis = await start(environment.redis());
      servers.push([plan, redis, await start(plan.subject.start(environment, redis))]);
    }
    // Opens connections only after all servers have started. Otherwise, the connections to the first server would be
    // idle for seconds.
    for (const [{ label, load }, redis, server] of servers) {
      const metered = { serverUs: [server.pid], redisUs: [redis.pid], totalUs: [server.pid, redis.pid] };
      sides.set(label, await SlicedServer.open(label, environment.certificates, server.port, metered, load));
    }
    // Gives V8 time to compile the hot code and lets garbage collection settle.
    await warmUp([...sides.values()], warmupSeconds);
    const before = new CpuBook();
    const measured = await takeTurns(
      pairs.map(({ of, against }) => ({ of: side(of), against: side(against) })),
      seconds,
    );
    return { pairs: measured, foreignShare: new CpuBook().foreignShare(before, process.pid) };
  } finally {
    for (const one of sides.values()) one.close();
    for (const server of started.reverse()) await server.stop();
  }
}
