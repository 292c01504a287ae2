// Time and randomness are passed as arguments, so that tests can run in virtual time.
//
// Invariant: only this file uses the global functions. A lint rule enforces this.
//
// Fact: the clock is read several times per event. Choice: one object whose functions only call the global, so that V8
// inlines them. Effect: no measurable cost (`BENCH_CASES=saturation make bench`).
import { randomBytes, randomUUID } from 'node:crypto';
import * as hooks from 'node:perf_hooks';
import * as timers from 'node:timers';
import * as promises from 'node:timers/promises';

// Fake timers of a test framework replace the globals, and their timers can be numbers without methods.
const { performance } = hooks;
const { setTimeout, clearTimeout, setImmediate } = timers;
const { setTimeout: delay } = promises;

export interface Timer {
  close(): unknown;
  /** Lets the process exit before the call is made. */
  unref(): unknown;
}

export interface Clock {
  /** Unix time in milliseconds. It can jump forward and backward. */
  epochMs(): number;
  /** Monotonic time in milliseconds, with fractions. Its zero point is arbitrary. */
  ms(): number;
  /** A negative `ms` means as soon as possible. */
  after(ms: number, run: () => void): Timer;
  /** The first call is made after half of `ms` to one and a half. The process may exit before a call. */
  every(ms: number, run: () => void): Timer;
  /** Resolves after `ms` (at most 24.8 days), or as soon as `signal` aborts. Never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls `run` after this turn of the event loop has read all readable sockets. */
  turnEnd(run: () => void): void;
  /** Calls `run` at the end of the next turn in which anything happens. The call itself wakes nobody. */
  nextTurnEnd(run: () => void): void;
}

export interface Random {
  /** At least 0 and less than 1. */
  fraction(): number;
  /** Version 4 (RFC 9562). */
  uuid(): string;
  /** Cryptographically strong. */
  bytes(count: number): Buffer;
}

export interface ClockAndRandom {
  readonly clock: Clock;
  readonly random: Random;
}

/** The longest delay that setTimeout accepts. It replaces longer delays with 1 ms. */
const TIMER_MS_MAX = 2 ** 31 - 1;

export const SYSTEM: ClockAndRandom = {
  clock: {
    epochMs: () => Date.now(),
    ms: () => performance.now(),
    after: (ms, run) => setTimeout(run, Math.max(0, ms)),
    every,
    sleep: (ms, signal) => {
      const limitedMs = Math.min(Math.max(0, ms), TIMER_MS_MAX);
      return delay(limitedMs, undefined, signal && { signal }).catch(() => undefined);
    },
    turnEnd: setImmediate,
    nextTurnEnd: (run) => void setImmediate(run).unref(),
  },
  random: { fraction: Math.random, uuid: randomUUID, bytes: randomBytes },
};

/** Makes its calls at multiples of `ms`. Timers of an idle process expire together, so it wakes up less often. */
function every(ms: number, run: () => void): Timer {
  let timer: NodeJS.Timeout;
  const schedule = (): void => {
    const leftMs = ms - (performance.now() % ms);
    timer = setTimeout(() => (schedule(), run()), leftMs < ms / 2 ? leftMs + ms : leftMs).unref();
  };
  schedule();
  return { close: () => clearTimeout(timer), unref: () => undefined };
}
