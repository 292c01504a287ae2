// Makes producers take turns at lookups and at decoding bodies, so that one producer does not delay another.
//
// Fact: a lookup may fetch a whole event over the connection that new events use. 2,300 simultaneous lookups delayed
// other producers' events past the queue's timeout, and 0.9 MB of small gzip bodies delayed another producer's body
// by 1.4 s. Choice: a few tasks at a time, and one line per producer. Effect: a producer waits for two tasks of a
// busy one (test/gateway/producer-slots.test.ts).
import type { Clock } from '../process/clock.ts';

interface Waiter {
  readonly sinceMs: number;
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

  /** Runs the task when it is this producer's turn. Resolves to `late` if the wait or the line is too long. */
  async run<T>(producer: string, task: () => Promise<T>): Promise<T | 'late'> {
    if (this.#free > 0) this.#free -= 1;
    else if (!(await this.#turn(producer))) return 'late';
    try {
      return await task();
    } finally {
      this.#giveBack();
    }
  }

  #turn(producer: string): Promise<boolean> {
    const line = this.#lines.get(producer) ?? [];
    if (line.length >= this.#limits.waitingMax) return Promise.resolve(false);
    this.#lines.set(producer, line);
    return new Promise((go) => line.push({ sinceMs: this.#clock.ms(), go }));
  }

  #giveBack(): void {
    const late = this.#clock.ms() - this.#limits.waitMs;
    for (const [producer, line] of this.#lines) {
      while (line[0] !== undefined && line[0].sinceMs <= late) line.shift()?.go(false);
      if (line.length === 0) this.#lines.delete(producer);
    }
    const [next] = this.#lines;
    if (next === undefined) {
      this.#free += 1;
      return;
    }
    const [producer, line] = next;
    line.shift()?.go(true);
    this.#lines.delete(producer);
    if (line.length > 0) this.#lines.set(producer, line); // Behind all other producers.
  }
}
