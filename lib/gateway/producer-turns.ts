// Makes producers take turns at lookups and at decoding bodies, so that one producer does not delay another.
//
// Fact: a lookup may fetch a whole event over the connection that new events use. 2,300 simultaneous lookups delayed
// other producers' events past the queue's timeout, and 0.9 MB of small gzip bodies delayed another producer's body
// by 1.4 s. Choice: a few tasks at a time, and one line per producer. Effect: a producer waits for two tasks of a
// busy one (test/gateway/producer-turns.test.ts).
import type { Clock } from '../process/clock.ts';

interface Waiter {
  readonly sinceMs: number;
  /** Returns false once the client is gone. The waiter then loses its turn. */
  readonly isNeeded: () => boolean;
  /** Called once, unless the client is gone; with `false` if the wait or the line is too long. */
  readonly go: (granted: boolean) => void;
}

export interface TurnLimits {
  readonly atATime: number;
  readonly waitMs: number;
  /** Maximum length of one producer's line. */
  readonly waitingMax: number;
}

export class ProducerTurns {
  readonly #clock: Clock;
  readonly #limits: TurnLimits;
  #free: number;
  /** Waiting tasks by producer, in the order of the producers' turns. Invariant: no line is empty. */
  readonly #lines = new Map<string, Waiter[]>();

  constructor(limits: TurnLimits, clock: Clock) {
    this.#clock = clock;
    this.#limits = limits;
    this.#free = limits.atATime;
  }

  /** Calls `go` when it is this producer's turn, perhaps immediately. Granted work must end with `giveBack`. */
  take(producer: string, isNeeded: () => boolean, go: (granted: boolean) => void): void {
    if (this.#free > 0) {
      this.#free -= 1;
      go(true);
      return;
    }
    const waiter = { sinceMs: this.#clock.ms(), isNeeded, go };
    const line = this.#lines.get(producer);
    if (line === undefined) this.#lines.set(producer, [waiter]);
    else if (line.length < this.#limits.waitingMax) line.push(waiter);
    else go(false);
  }

  giveBack(): void {
    const late = this.#clock.ms() - this.#limits.waitMs;
    for (const [producer, line] of this.#lines) {
      const overdue = line.findIndex(({ sinceMs }) => sinceMs > late);
      for (const { isNeeded, go } of line.splice(0, overdue === -1 ? line.length : overdue)) if (isNeeded()) go(false);
      if (line.length === 0) this.#lines.delete(producer);
    }
    for (const [producer, line] of this.#lines) {
      const next = line.splice(0, 1 + line.findIndex(({ isNeeded }) => isNeeded())).at(-1);
      this.#lines.delete(producer);
      if (next === undefined) continue; // All of its clients are gone.
      if (line.length > 0) this.#lines.set(producer, line); // Behind all other producers.
      next.go(true);
      return;
    }
    this.#free += 1;
  }
}
