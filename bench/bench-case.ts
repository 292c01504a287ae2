import type { Bench } from './bench.ts';
import type { JointRun, Run } from './measure.ts';
import type { MetricName } from './metrics.ts';
import type { Limit } from './statistics.ts';

/**
 * A ratio of two labels' figures, round by round; without `against` the figure itself. A limit is a goal and is only
 * reported.
 */
export interface Comparison {
  readonly metric: MetricName;
  readonly of: string;
  readonly against?: string;
  readonly limit?: Limit;
}

export interface BenchCase {
  readonly name: string;
  /** One sentence. */
  readonly aim: string;
  /** For figures that hardly vary and for long runs. */
  readonly roundsMax?: number;
  readonly comparisons: readonly Comparison[];
  /** The reason why the case cannot run here. */
  leftOut?(bench: Bench): string | undefined;
  runs(bench: Bench): Promise<readonly Run[]> | readonly (Run | JointRun)[];
}
