// The only real clock and chance of this process. ingest-client has this file, so it imports no package.
import { SystemClock, SystemRandom, type ClockAndRandom } from '../lib/process/clock.ts';

export const SYSTEM: ClockAndRandom = { clock: new SystemClock(), random: new SystemRandom() };
