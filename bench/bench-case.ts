// What a case is: an aim, the runs of one round, and what their figures are compared with.
import type { Bench } from './bench.ts';
import type { JointRun, Run } from './measure.ts';
import type { MetricName } from './metrics.ts';
import type { Limit } from './statistics.ts';

/**
 * A ratio of two labels' figures, round by round; without `against` the figure itself. A limit is a goal, told and not
 * enforced.
 */
export interface Comparison {
  readonly metric: MetricName;
  readonly of: string;
  readonly against?: string;
  readonly limit?: Limit;
}

export interface BenchCase {
  readonly name: string;
  /** What it is to find out, in one sentence. */
  readonly aim: string;
  /** Fewer rounds than the others, where a figure hardly varies or a run is long. */
  readonly roundsMax?: number;
  readonly comparisons: readonly Comparison[];
  /** Why the case cannot be run here. */
  leftOut?(bench: Bench): string | undefined;
  runs(bench: Bench): Promise<readonly Run[]> | readonly (Run | JointRun)[];
}
