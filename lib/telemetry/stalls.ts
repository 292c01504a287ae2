// Notices that this process stood still: a CPU limit, steal time, swap, or a call that blocks the event loop.
//
//   timer is due         process goes on, reads its sockets      overdue timer runs
//        |---- stands still ---|---- reads a request ----------------|
//
// Fact: a request that is read while a timer is overdue may have waited since the timer was due. Choice: a timer ticks
// while requests arrive, and such a request begins when the timer was due. Effect: one comparison for each read, and no
// more wake-ups of an idle process, because its ticks coincide with those of `Clock.every`.
import type { Histogram, Registry } from 'prom-client';
import type { Clock, Timer } from '../process/clock.ts';
import { rareHistogram } from './instruments.ts';

const BUSY_INTERVAL_MS = 50;
/** A process is busy for this long after a request. */
const BUSY_MS = 1_000;
/** While there are connections, a server checks them at this interval. */
const CONNECTED_INTERVAL_MS = 100;
const IDLE_INTERVAL_MS = 1_000;
/** Shorter delays are ordinary work. */
const STALL_MS_MIN = 100;
/** Timers are this precise. */
const LATE_MS = 5;
const BOUNDS_S = [0.2, 0.5, 1, 2.5, 10];

export class Stalls {
  readonly #clock: Clock;
  readonly #durations: Histogram;
  #dueMs = 0;
  #busyUntilMs = 0;
  #timer: Timer | undefined;
  #hasConnections = (): boolean => false;

  constructor(registry: Registry, clock: Clock) {
    this.#clock = clock;
    const help = 'Times that this process stood still for at least 100 ms, by a timer that was overdue.';
    this.#durations = rareHistogram(registry, 'ingest_process_stall_seconds', help, BOUNDS_S);
    this.#schedule();
  }

  /** The process has a timer for its connections while this returns true. */
  setConnections(hasConnections: () => boolean): void {
    this.#hasConnections = hasConnections;
  }

  /** Returns when a request that is read now arrived, as well as this process knows it, by `Clock.ms()`. */
  arrivedMs(): number {
    const nowMs = this.#clock.ms();
    this.#busyUntilMs = nowMs + BUSY_MS;
    if (nowMs > this.#dueMs) return this.#dueMs;
    if (this.#dueMs - nowMs > 2 * BUSY_INTERVAL_MS) this.#schedule();
    return nowMs;
  }

  #schedule(): void {
    const nowMs = this.#clock.ms();
    const idleMs = this.#hasConnections() ? CONNECTED_INTERVAL_MS : IDLE_INTERVAL_MS;
    const everyMs = nowMs < this.#busyUntilMs ? BUSY_INTERVAL_MS : idleMs;
    const leftMs = everyMs - (nowMs % everyMs);
    const waitMs = leftMs < everyMs / 2 ? leftMs + everyMs : leftMs;
    this.#dueMs = nowMs + waitMs;
    this.#timer?.close();
    this.#timer = this.#clock.after(waitMs, () => this.#tick());
    this.#timer.unref();
  }

  #tick(): void {
    const lateMs = this.#clock.ms() - this.#dueMs;
    if (lateMs >= STALL_MS_MIN) this.#durations.observe(lateMs / 1000);
    // A process that was stopped while it waited for sockets may run the timer before it reads them.
    if (lateMs < LATE_MS) this.#schedule();
    else this.#clock.turnEnd(() => this.#schedule());
  }
}
