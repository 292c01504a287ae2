// Signals and the end of a process: the first SIGTERM or SIGINT asks for an orderly stop, the second ends immediately.
//
// Invariant: `stop` runs at most once, and the process ends within `deadlineMs` of the first signal whatever `stop`
// does. This file decides when; the exit itself is the caller's, because only bin ends the process.
import type { Clock } from './clock.ts';

export interface StopSignals {
  readonly clock: Clock;
  /** How long `stop` may take, in milliseconds. */
  readonly deadlineMs: number;
  /** The orderly stop. */
  readonly stop: (signal: NodeJS.Signals) => Promise<void>;
  /** Ends the process with this code. */
  readonly exit: (code: number) => void;
  readonly onSecondSignal?: (signal: NodeJS.Signals) => void;
  readonly onDeadline?: () => void;
  readonly onFailure: (cause: unknown) => void;
}

const SIGNAL_NUMBERS = { SIGINT: 2, SIGTERM: 15 } as const;
type StopSignal = keyof typeof SIGNAL_NUMBERS;

/** Who listens now; none at first. */
let listener: ((signal: StopSignal) => void) | undefined;

function listen(next: (signal: StopSignal) => void): void {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, next);
    if (listener !== undefined) process.off(signal, listener);
  }
  listener = next;
}

/**
 * Listens until onStopSignals does: `end` is called with the code that a shell gives a program which that signal ended.
 * From now on SIGHUP ends nothing.
 */
export function onEarlySignals(end: (code: number) => void): void {
  process.on('SIGHUP', () => undefined);
  listen((signal) => end(128 + SIGNAL_NUMBERS[signal]));
}

/**
 * Listens from now on, in place of onEarlySignals. A clean stop ends with 0; a stop cut off by its deadline too (what
 * was left had its chance); a stop that fails with 1; the second signal with 128 + its number.
 */
export function onStopSignals(options: StopSignals): void {
  let stopping = false;
  listen((signal) => {
    if (stopping) {
      options.onSecondSignal?.(signal);
      options.exit(128 + SIGNAL_NUMBERS[signal]);
      return;
    }
    stopping = true;
    const deadline = options.clock.after(options.deadlineMs, () => {
      options.onDeadline?.();
      options.exit(0);
    });
    options.stop(signal).then(
      () => {
        deadline.close();
        options.exit(0);
      },
      (cause: unknown) => {
        options.onFailure(cause);
        options.exit(1);
      },
    );
  });
}
