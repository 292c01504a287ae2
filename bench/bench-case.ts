import type { Bench } from './bench.ts';
import type { Run } from './measure.ts';
import type { MetricName } from './metrics.ts';
import type { Limit } from './statistics.ts';

/**
 * Compares a metric of two labels as a ratio for each round or, without `against`, reports the metric itself. A limit
 * is a goal.
 */
export interface Comparison {
  readonly metric: MetricName;
  readonly of: string;
  readonly against?: string;
  readonly limit?: Limit;
}

export interface BenchCase {
  readonly name: string;
  readonly aim: string;
  /** Set for long runs and for figures that hardly vary. */
  readonly roundsMax?: number;
  readonly comparisons: readonly Comparison[];
  runs(bench: Bench): Promise<readonly Run[]> | readonly Run[];
}
