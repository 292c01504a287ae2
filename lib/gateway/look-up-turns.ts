// How many look-ups go on at a time; the others wait in line, one line for each producer.
//
// Fact: a look-up may bring a whole event from the queue over the connection that new events go by, and take a
// millisecond to answer; 2,300 of them at once made other producers' events wait past the queue's time-out (125 of 226
// were answered 503). Choice: few at a time, and producers take turns. Effect: where 1,000 connections of one producer
// look up without a pause, another's look-up waits for two of theirs (test/gateway/look-up-turns.test.ts).
import type { Clock } from '../process/clock.ts';

const AT_A_TIME = 2;
/** A look-up that has waited longer is refused, in milliseconds. */
const WAIT_MS = 5_000;

interface Waiter {
  readonly sinceMs: number;
  readonly go: (granted: boolean) => void;
}

export class LookUpTurns {
  readonly #clock: Clock;
  #free = AT_A_TIME;
  /** By producer, the one whose turn is next first. Invariant: no line is empty. */
  readonly #lines = new Map<string, Waiter[]>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves when it is this producer's turn: true, and `giveBack` is to be called; false where that took too long. */
  take(producer: string): Promise<boolean> {
    if (this.#free > 0) {
      this.#free -= 1;
      return Promise.resolve(true);
    }
    return new Promise((go) => {
      const waiter = { sinceMs: this.#clock.ms(), go };
      const line = this.#lines.get(producer);
      if (line === undefined) this.#lines.set(producer, [waiter]);
      else line.push(waiter);
    });
  }

  giveBack(): void {
    const late = this.#clock.ms() - WAIT_MS;
    for (const [producer, line] of this.#lines) {
      const overdue = line.findIndex(({ sinceMs }) => sinceMs >= late);
      for (const { go } of line.splice(0, overdue === -1 ? line.length : overdue)) go(false);
      const next = line.shift();
      this.#lines.delete(producer);
      if (line.length > 0) this.#lines.set(producer, line); // Behind all others.
      if (next === undefined) continue;
      next.go(true);
      return;
    }
    this.#free += 1;
  }
}
