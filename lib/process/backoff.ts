// Pauses between tries: doubling, bounded, with jitter, so that many processes do not come back in one step.

/**
 * The pause after `failures` failures in a row (1 is the first), in milliseconds, with 50 % jitter: `fraction` is drawn
 * at random, from 0 to 1.
 */
export function pauseMs(failures: number, firstMs: number, maxMs: number, fraction: number): number {
  const ceiling = Math.min(firstMs * 2 ** Math.min(failures - 1, 30), maxMs);
  return ceiling / 2 + (fraction * ceiling) / 2;
}

/** The longest time of setTimeout, 24.8 days: a longer one would end at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** Resolves after `ms`, at most TIMER_MS_MAX, or as soon as `signal` aborts. Never rejects. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve();
      return;
    }
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, Math.min(ms, TIMER_MS_MAX));
    signal.addEventListener('abort', done, { once: true });
  });
}
