// The clock and the chance of this process: the only ones that are real. And a log for looks at things.
import { SystemClock, SystemRandom, type ClockAndRandom } from '../lib/process/clock.ts';
import { createLog } from '../lib/process/log.ts';

export const SYSTEM: ClockAndRandom = { clock: new SystemClock(), random: new SystemRandom() };

/** For connections whose troubles are the result: their own lines would only repeat it. */
export const quietLog = createLog('check', 'error');
