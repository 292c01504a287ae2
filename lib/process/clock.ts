// Time and randomness as arguments, so that tests can run in virtual time.
//
// Invariant: only this file uses the globals, and a lint rule checks that. bin makes one SystemClock and one
// SystemRandom for each process.
//
// Fact: each event reads the clock several times. Choice: one class whose methods only call the global, so that V8
// inlines them. Effect: no measurable cost (`BENCH_CASES=saturation make bench`).
import { randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';

/** A pending call of `after` or `every`. */
export interface Timer {
  /** Cancels the call. */
  close(): unknown;
  /** Lets the process end before the call. */
  unref(): unknown;
}

export interface Clock {
  /** Unix time in milliseconds. It can jump forward and backward. */
  epochMs(): number;
  /** A monotonic time in milliseconds, with fractions and an arbitrary start. */
  ms(): number;
  after(ms: number, run: () => void): Timer;
  /** Calls `run` every `ms` milliseconds, first after `ms`. */
  every(ms: number, run: () => void): Timer;
  /** Resolves after `ms` (at most 24.8 days), or as soon as `signal` aborts. Never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls `run` after this turn of the event loop has read all sockets that were readable. */
  turnEnd(run: () => void): void;
}

export interface Random {
  /** At least 0, less than 1. */
  fraction(): number;
  /** RFC 9562, version 4. */
  uuid(): string;
  /** Cryptographically strong. */
  bytes(count: number): Buffer;
}

export interface ClockAndRandom {
  readonly clock: Clock;
  readonly random: Random;
}

/** The longest time that setTimeout accepts. It treats a longer one as 1 ms. */
const TIMER_MS_MAX = 2 ** 31 - 1;

export class SystemClock implements Clock {
  epochMs(): number {
    return Date.now();
  }

  ms(): number {
    return performance.now();
  }

  after(ms: number, run: () => void): Timer {
    return setTimeout(run, ms);
  }

  every(ms: number, run: () => void): Timer {
    return setInterval(run, ms);
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const options = signal === undefined ? undefined : { signal };
    return delay(Math.min(ms, TIMER_MS_MAX), undefined, options).catch(() => undefined);
  }

  turnEnd(run: () => void): void {
    setImmediate(run);
  }
}

export class SystemRandom implements Random {
  fraction(): number {
    return Math.random();
  }

  uuid(): string {
    return randomUUID();
  }

  bytes(count: number): Buffer {
    return randomBytes(count);
  }
}
