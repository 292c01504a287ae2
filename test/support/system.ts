import { SystemClock, SystemRandom, type ClockAndRandom } from '../../lib/process/clock.ts';

export const SYSTEM: ClockAndRandom = { clock: new SystemClock(), random: new SystemRandom() };
