// Pauses between tries: doubling, bounded, with jitter, so that many processes do not come back in one step.

/** The pause after `failures` failures in a row (1 is the first), in milliseconds, with 50 % jitter. */
export function pauseMs(failures: number, firstMs: number, maxMs: number): number {
  const ceiling = Math.min(firstMs * 2 ** Math.min(failures - 1, 30), maxMs);
  return ceiling / 2 + (Math.random() * ceiling) / 2;
}

/** Resolves after `ms`, or as soon as `signal` aborts. Never rejects. */
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
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done, { once: true });
  });
}
