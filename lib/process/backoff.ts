// Pauses between tries: doubling, bounded, with jitter, so that many processes do not come back in one step.

/**
 * The pause after `failures` failures in a row (1 is the first), in milliseconds, with 50 % jitter: `fraction` is drawn
 * at random, from 0 to 1.
 */
export function pauseMs(failures: number, firstMs: number, maxMs: number, fraction: number): number {
  const ceiling = Math.min(firstMs * 2 ** Math.min(failures - 1, 30), maxMs);
  return ceiling / 2 + (fraction * ceiling) / 2;
}
