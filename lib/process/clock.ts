// Time and chance, handed in: whatever waits, measures, retries or draws takes a Clock or a Random as an argument.
//
// Invariant: this file alone uses the globals (a lint rule holds it); bin makes one SystemClock and one SystemRandom. A
// test hands in a clock of its own, so a time-out, a back-off or an expiry is tested without waiting for it.
//
// Fact: a clock is asked several times for each event. Choice: one class with one shape, whose methods do nothing but
// call the global, so that V8 inlines them. Effect: none to be measured (`BENCH_CASES=saturation make bench`).
import { randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';

/** A pending call of `after` or `every`. */
export interface Timer {
  /** The call is not made any more. */
  close(): unknown;
  /** The call does not keep the process running. */
  unref(): unknown;
}

export interface Clock {
  /** The wall clock: Unix time in milliseconds. May jump, in both directions. */
  epochMs(): number;
  /** Monotonic, in milliseconds with fractions, from an arbitrary start. */
  ms(): number;
  after(ms: number, run: () => void): Timer;
  /** First after `ms`, and again each `ms`. */
  every(ms: number, run: () => void): Timer;
  /** Resolves after `ms` (at most 24.8 days), or as soon as `signal` aborts. Never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Runs `run` in the check phase of this turn of the event loop, after all that was readable in it was read. */
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

/** Both, for a class that needs them or hands them on. */
export interface ClockAndRandom {
  readonly clock: Clock;
  readonly random: Random;
}

/** The longest time of setTimeout: a longer one would end at once. */
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
