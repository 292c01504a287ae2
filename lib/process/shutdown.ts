// Signals that end a process. SIGTERM and SIGINT have one listener at a time: until a daemon can stop in order, it is
// the one of `onEarlySignals`.

const SIGNAL_NUMBERS = { SIGINT: 2, SIGTERM: 15 } as const;
export type StopSignal = keyof typeof SIGNAL_NUMBERS;

/** The exit code that a shell gives a program which this signal ended. */
export const signalExit = (signal: StopSignal): number => 128 + SIGNAL_NUMBERS[signal];

let listener: ((signal: StopSignal) => void) | undefined;

/** Calls `next` at each SIGTERM and SIGINT, and no earlier listener any more. */
export function onStopSignals(next: (signal: StopSignal) => void): void {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, next);
    if (listener !== undefined) process.off(signal, listener);
  }
  listener = next;
}

/** Calls `end` with the exit code at a signal, until `onStopSignals`. From now on SIGHUP ends nothing. */
export function onEarlySignals(end: (code: number) => void): void {
  process.on('SIGHUP', () => undefined);
  onStopSignals((signal) => end(signalExit(signal)));
}
