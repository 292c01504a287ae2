// The clock and the chance of this process: the only ones that are real. ingest-client has this file: no package is needed.
import { SystemClock, SystemRandom, type ClockAndRandom } from '../lib/process/clock.ts';

export const SYSTEM: ClockAndRandom = { clock: new SystemClock(), random: new SystemRandom() };
