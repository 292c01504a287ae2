// The signals that stop a process. SIGTERM and SIGINT have only one listener at a time.

const SIGNAL_NUMBERS = { SIGINT: 2, SIGTERM: 15 } as const;
export type StopSignal = keyof typeof SIGNAL_NUMBERS;

/** Returns the exit code that a shell reports for a program killed by this signal. */
export const signalExit = (signal: StopSignal): number => 128 + SIGNAL_NUMBERS[signal];

let listener: ((signal: StopSignal) => void) | undefined;

export function onStopSignals(next: (signal: StopSignal) => void): void {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, next);
    if (listener !== undefined) process.off(signal, listener);
  }
  listener = next;
}

/** Calls `end` on SIGTERM or SIGINT until `onStopSignals` replaces the listener. SIGHUP no longer ends the process. */
export function onEarlySignals(end: (code: number) => void): void {
  process.on('SIGHUP', () => undefined);
  onStopSignals((signal) => end(signalExit(signal)));
}
