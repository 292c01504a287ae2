// CPU time for each accepted event of processes that a run starts beside its server.
import type { Observer } from './measure.ts';
import type { MetricName } from './metrics.ts';
import { CpuBook } from './process-cost.ts';

/** The processes `pids`, all together, as the figure `metric`. */
export function cpuObserver(pids: readonly number[], metric: MetricName): Observer {
  let [before, after] = [new CpuBook(), new CpuBook()];
  const used = (): number => pids.reduce((sum, pid) => sum + after.seconds(pid) - before.seconds(pid), 0);
  return {
    warm: () => void (before = new CpuBook()),
    done: () => void (after = new CpuBook()),
    figures: (accepted) => ({ [metric]: (used() / accepted) * 1e6 }),
  };
}
