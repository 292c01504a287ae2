// Servers that stand beside each other while they are measured (turns.ts says why): started, warmed up, measured in
// turns, and ended.
//
// The load runs in this process. One that is switched off leaves its server idle.
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
  /** The share of all cores' time that other processes took in the measured part. */
  readonly foreignShare: number;
}

/**
 * Measures pairs of `plans`, by their labels, with fresh servers, each with a fresh Redis; the duration is that of each
 * side of a pair. Rejects where an answer was no 202, or a connection broke.
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
    // Connections come last: those of the first server would be idle until the last one has started.
    for (const [{ label, load }, redis, server] of servers) {
      const metered = { serverUs: [server.pid], redisUs: [redis.pid], totalUs: [server.pid, redis.pid] };
      sides.set(label, await SlicedServer.open(label, environment.certificates, server.port, metered, load));
    }
    // Until all are compiled, and their collections have found their pace.
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
