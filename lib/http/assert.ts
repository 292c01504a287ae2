// Assertions that also run in production.
//
// Fact: each call of node's `assert` collects its arguments, and a failed one searches the source for its message.
// Choice: one comparison and a fixed message. Effect: no cost that `BENCH_CASES=saturation make bench` can measure.
import { AssertionError } from 'node:assert';

/** `what` states the condition that should have held. */
export function assert(holds: boolean, what: string): asserts holds {
  if (!holds) throw new AssertionError({ message: what });
}
