// Shares the turns of the event loop among the holders of connections.
//
// Fact: 100 connections with hundreds of requests in each read blocked the event loop for seconds. Choice: work above a
// turn's budget waits in a queue for each holder. Oldest and newest entries alternate: a new connection need not wait
// for thousands of others.
import type { Clock } from '../process/clock.ts';

/** Cost of a queued call, and of a slice that node:http reads. A request on the fast path costs 1. */
export const CALL_COST = 4;

export class Turns {
  readonly #clock: Clock;
  readonly #budget: () => number;
  #left: number;
  #isScheduled = false;
  #ending: (() => void)[] = [];
  /** Invariant: no queue is empty. */
  readonly #waiting = new Map<string, (() => unknown)[]>();
  #isForNewest = false;

  constructor(clock: Clock, budget: () => number) {
    this.#clock = clock;
    this.#budget = budget;
    this.#left = budget();
  }

  /** Uses up some of this turn's budget. Returns false if nothing is left: call `later` then. */
  take(cost: number): boolean {
    if (this.#left <= 0) return false;
    this.#left -= cost;
    this.#schedule();
    return true;
  }

  atEnd(run: () => void): void {
    this.#ending.push(run);
    this.#schedule();
  }

  /** Calls `run` at the end of this turn or of a later one. The call costs nothing if it returns false. */
  later(holder: string, run: () => unknown): void {
    const queue = this.#waiting.get(holder);
    if (queue === undefined) this.#waiting.set(holder, [run]);
    else queue.push(run);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#clock.turnEnd(this.#end);
  }

  readonly #end = (): void => {
    this.#isScheduled = false;
    const budget = this.#budget();
    this.#left = budget;
    const ending = this.#ending;
    this.#ending = [];
    for (const run of ending) run();
    // Each queue that still has entries moves to the end of the map.
    for (const [holder, queue] of this.#waiting) {
      if (this.#left <= 0) break;
      this.#waiting.delete(holder);
      const run = this.#isForNewest ? queue.pop() : queue.shift();
      if (queue.length > 0) this.#waiting.set(holder, queue);
      if (run?.() !== false) this.#left -= CALL_COST;
    }
    if (this.#left < budget) this.#isForNewest = !this.#isForNewest;
    if (this.#waiting.size > 0) this.#schedule();
  };
}
