// The first import of a daemon. It handles signals that arrive during startup. The first process in a container
// ignores signals that it does not handle, so without this file, stopping a container that is still starting would
// take the full stop timeout.
//
// A daemon that is interrupted during startup exits with 0, because it has nothing to drain. An interrupted `--check`
// exits with the code of the signal, so that the interruption is not mistaken for success.
import { onEarlySignals } from '../lib/process/shutdown.ts';
import { endNow } from './process-end.ts';

const starts = process.argv.length === 2;
onEarlySignals((code) => endNow(starts ? 0 : code));
