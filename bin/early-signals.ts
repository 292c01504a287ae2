// A daemon's first import: what it does about signals before it listens. The first process of a container has no
// default for them, so one that comes earlier would be lost, and a stop of the container would wait in vain.
//
// There is nothing to drain yet: a start ends with 0, and an answer to a flag that was cut off does not look like one.
import { onEarlySignals } from '../lib/process/shutdown.ts';
import { endNow } from './process-end.ts';

const starts = process.argv.length === 2;
onEarlySignals((code) => endNow(starts ? 0 : code));
