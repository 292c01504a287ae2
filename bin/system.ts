// The clock and random source of this process. This file is in ingest-client, so it must not import npm packages.
import { SystemClock, SystemRandom, type ClockAndRandom } from '../lib/process/clock.ts';

export const SYSTEM: ClockAndRandom = { clock: new SystemClock(), random: new SystemRandom() };
