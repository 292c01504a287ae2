// How the clients of this folder connect again.
import { pauseMs } from '../../process/backoff.ts';
import type { Random } from '../../process/clock.ts';

/** How long one attempt to connect and greet may take. */
export const CONNECT_TIMEOUT_MS = 2_000;
const PAUSE_FIRST_MS = 50;
export const PAUSE_MAX_MS = 500;

/** `retries` counts from 0. */
export const reconnectPauseMs = (retries: number, random: Random): number =>
  pauseMs(retries + 1, PAUSE_FIRST_MS, PAUSE_MAX_MS, random.fraction());
