// Assertions that also run in production.
//
// Fact: node's assert collects its arguments and searches for the source of a failure. Choice: one comparison and one
// sentence. Effect: no cost that `BENCH_CASES=saturation make bench` can measure.
import { AssertionError } from 'node:assert';

/** Throws an AssertionError, which ends the process as any bug does. `what` is the condition that failed. */
export function assert(holds: boolean, what: string): asserts holds {
  if (!holds) throw new AssertionError({ message: what });
}
