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
  /** Not a Set, because V8's old tables of one would keep what the callbacks use (lib/redis/accept/calls.ts). */
  #limits: TimeLimit[] = [];
  #timer: Timer | undefined;
  /** The time of the next check, infinite without a timer. */
  #checkMs = Number.POSITIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `late` after `ms`, unless the limit is removed before. The process may exit first. */
  add(ms: number, late: () => void): TimeLimit {
    const limit = { dueMs: this.#clock.ms() + ms, late };
    this.#limits.push(limit);
    if (limit.dueMs < this.#checkMs) this.#checkAt(limit.dueMs);
    return limit;
  }

  remove(limit: TimeLimit): void {
    const at = this.#limits.indexOf(limit);
    if (at !== -1) this.#limits.splice(at, 1);
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
    const late = this.#limits.filter(({ dueMs }) => dueMs <= now);
    this.#limits = this.#limits.filter(({ dueMs }) => dueMs > now);
    this.#checkMs = Math.min(Number.POSITIVE_INFINITY, ...this.#limits.map(({ dueMs }) => dueMs));
    if (this.#limits.length > 0) this.#checkAt(this.#checkMs);
    for (const limit of late) limit.late();
  }
}
