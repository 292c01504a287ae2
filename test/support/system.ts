// Real time and chance, for tests of what talks to a real server.
import { SystemClock, SystemRandom, type ClockAndRandom } from '../../lib/process/clock.ts';

export const SYSTEM: ClockAndRandom = { clock: new SystemClock(), random: new SystemRandom() };
