// The clock and the random source of this process. This file is in ingest-client, so it may not import packages.
import { SystemClock, SystemRandom, type ClockAndRandom } from '../lib/process/clock.ts';

export const SYSTEM: ClockAndRandom = { clock: new SystemClock(), random: new SystemRandom() };
