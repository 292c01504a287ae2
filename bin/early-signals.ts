// The first import of a daemon. It handles signals that arrive during startup. The first process in a container
// ignores signals that it does not handle, so without this file, stopping a container that is still starting would
// take the full stop timeout.
//
// A daemon that is interrupted during startup exits with 0, because it has nothing to drain. An interrupted `--check`
// exits with the code of the signal, so that the interruption is not mistaken for success.
import { endNow } from './process-end.ts';

const STOP_SIGNALS = { SIGINT: 2, SIGTERM: 15 } as const;
type StopSignal = keyof typeof STOP_SIGNALS;

/** Returns the exit code that a shell reports for a program killed by this signal. */
export const signalExit = (signal: StopSignal): number => 128 + STOP_SIGNALS[signal];

const starts = process.argv.length === 2;
let listener = (signal: StopSignal): void => endNow(starts ? 0 : signalExit(signal));
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => listener(signal));
// SIGHUP must not end a program: the gateway reloads its files.
process.on('SIGHUP', () => undefined);

export function onStopSignals(next: (signal: StopSignal) => void): void {
  listener = next;
}
