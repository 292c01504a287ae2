// A daemon's first import: handles signals during the start. Fact: the first process of a container ignores signals
// that it does not handle, so a stop of the container would wait for its full time-out.
//
// A start that is interrupted exits with 0, because nothing must be drained. An interrupted `--check` exits with the
// code of the signal, so that it does not look like success.
import { onEarlySignals } from '../lib/process/shutdown.ts';
import { endNow } from './process-end.ts';

const starts = process.argv.length === 2;
onEarlySignals((code) => endNow(starts ? 0 : code));
