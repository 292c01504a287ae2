// Shares the turns of the event loop among the connections of a server.
//
// Fact: one read of a socket may contain hundreds of requests, and 100 such connections blocked the event loop for
// seconds. Choice: the first request of each read is handled immediately; further ones use up the turn's budget and
// then wait in one queue for each producer. The queues take turns. Effect: what one producer sends delays the requests
// of another one by a turn (test/http/turns.test.ts).
import type { Clock } from '../process/clock.ts';

export class Turns {
  readonly #clock: Clock;
  readonly #budget: number;
  readonly #queuedCost: number;
  #left: number;
  #isScheduled = false;
  #ending: (() => void)[] = [];
  /** Connections with more input, by holder. Invariant: no queue is empty. */
  readonly #waiting = new Map<string, (() => void)[]>();

  /** `budget` is for each turn. Each call that was queued costs `queuedCost`. */
  constructor(clock: Clock, budget: number, queuedCost: number) {
    this.#clock = clock;
    this.#budget = budget;
    this.#left = budget;
    this.#queuedCost = queuedCost;
  }

  /** Uses up some of this turn's budget. Returns false if nothing is left: call `later` then. */
  take(cost: number): boolean {
    if (this.#left <= 0) return false;
    this.#left -= cost;
    this.#schedule();
    return true;
  }

  /** Calls `run` at the end of this turn, after all readable sockets have been read. */
  atEnd(run: () => void): void {
    this.#ending.push(run);
    this.#schedule();
  }

  /** Calls `run` at the end of this turn or of a later one. */
  later(holder: string, run: () => void): void {
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
    this.#left = this.#budget;
    const ending = this.#ending;
    this.#ending = [];
    for (const run of ending) run();
    // Each queue that still has entries moves to the end of the map.
    for (const [holder, queue] of this.#waiting) {
      if (this.#left <= 0) break;
      this.#left -= this.#queuedCost;
      this.#waiting.delete(holder);
      const run = queue.shift();
      if (queue.length > 0) this.#waiting.set(holder, queue);
      run?.();
    }
    if (this.#waiting.size > 0) this.#schedule();
  };
}
