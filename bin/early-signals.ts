// The first import of a daemon. It handles signals that arrive during startup. The first process in a container
// ignores signals that it does not handle, so without this file, stopping a container that is still starting would
// take the full stop timeout.
//
// A daemon that is interrupted during startup exits with 0, because it has nothing to drain. An interrupted `--check`
// exits with the code of the signal, so that the interruption is not mistaken for success.
import { constants } from 'node:os';
import { endNow, onSignals } from './terminal.ts';

/** Returns the exit code that a shell reports for a program killed by this signal. */
export const signalExit = (signal: NodeJS.Signals): number => 128 + constants.signals[signal];

const starts = process.argv.length === 2;
onSignals((signal) => endNow(starts ? 0 : signalExit(signal)));
// SIGHUP must not end a program: the gateway reloads its files.
process.on('SIGHUP', () => undefined);
