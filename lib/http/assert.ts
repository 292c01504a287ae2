// What must hold in the code that reads and answers requests, checked in production too.
//
// Fact: node's own assert collects its arguments, and looks for the source of a failure. Choice: a comparison, and a
// sentence. Effect: none that `BENCH_CASES=saturation make bench` shows.
import { AssertionError } from 'node:assert';

/** Throws an AssertionError, which ends the process as any bug does. `what` says what should have held. */
export function assert(holds: boolean, what: string): asserts holds {
  if (!holds) throw new AssertionError({ message: what });
}
