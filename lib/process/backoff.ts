// Pauses between tries. They double up to a maximum, with 50 % jitter so that processes do not all retry together.

/** Returns the pause after `failures` consecutive failures (at least 1). `fraction` is a random number from 0 to 1. */
export function pauseMs(failures: number, firstMs: number, maxMs: number, fraction: number): number {
  const ceiling = Math.min(firstMs * 2 ** Math.min(failures - 1, 30), maxMs);
  return ceiling / 2 + (fraction * ceiling) / 2;
}
