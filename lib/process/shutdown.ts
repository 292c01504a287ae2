// Signals and the end of a process: the first SIGTERM or SIGINT asks for an orderly stop, the second ends immediately.
//
// Invariant: `stop` runs at most once, and the process ends within `deadlineMs` of the first signal whatever `stop`
// does. This file decides when; the exit itself is the caller's, because only bin ends the process.

export interface StopSignals {
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

/**
 * Listens from now on. A clean stop ends with 0; a stop cut off by its deadline too (what was left had its chance); a
 * stop that fails with 1; the second signal with 128 + its number.
 */
export function onStopSignals(options: StopSignals): void {
  let stopping = false;
  const handle = (signal: 'SIGINT' | 'SIGTERM'): void => {
    if (stopping) {
      options.onSecondSignal?.(signal);
      options.exit(128 + SIGNAL_NUMBERS[signal]);
      return;
    }
    stopping = true;
    const deadline = setTimeout(() => {
      options.onDeadline?.();
      options.exit(0);
    }, options.deadlineMs);
    options.stop(signal).then(
      () => {
        clearTimeout(deadline);
        options.exit(0);
      },
      (cause: unknown) => {
        options.onFailure(cause);
        options.exit(1);
      },
    );
  };
  process.on('SIGTERM', handle);
  process.on('SIGINT', handle);
}
