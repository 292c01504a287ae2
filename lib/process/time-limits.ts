// Time limits of calls that almost always end in time.
//
// Fact: a process that makes few calls finds the code of node's timers cold, and a timer for each call takes as long as
// the rest of the call. Choice: one timer for all limits, which is seldom set again before it fires. Effect: a
// consumer's cycle of read, land and acknowledge needs about 10 % less CPU time (bench/README.md).
import type { Clock, Timer } from './clock.ts';

export interface TimeLimit {
  readonly dueMs: number;
  readonly late: () => void;
}

export class TimeLimits {
  readonly #clock: Clock;
  readonly #limits = new Set<TimeLimit>();
  #timer: Timer | undefined;
  /** The time of the next check, infinite without a timer. */
  #checkMs = Number.POSITIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `late` after `ms`, unless the limit is removed before. The process may exit first. */
  add(ms: number, late: () => void): TimeLimit {
    const limit = { dueMs: this.#clock.ms() + ms, late };
    this.#limits.add(limit);
    if (limit.dueMs < this.#checkMs) this.#checkAt(limit.dueMs);
    return limit;
  }

  remove(limit: TimeLimit): void {
    this.#limits.delete(limit);
  }

  #checkAt(ms: number): void {
    this.#checkMs = ms;
    // Sockets are read once before the check, so a reply that arrived while this process was busy is in time.
    this.#timer?.close();
    this.#timer = this.#clock.after(ms - this.#clock.ms(), () => this.#clock.turnEnd(() => this.#check()));
    this.#timer.unref();
  }

  #check(): void {
    const now = this.#clock.ms();
    const late = [...this.#limits].filter(({ dueMs }) => dueMs <= now);
    for (const limit of late) this.#limits.delete(limit);
    this.#checkMs = Math.min(Number.POSITIVE_INFINITY, ...[...this.#limits].map(({ dueMs }) => dueMs));
    if (this.#limits.size > 0) this.#checkAt(this.#checkMs);
    for (const limit of late) limit.late();
  }
}
