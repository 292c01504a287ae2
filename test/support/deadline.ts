// How long a test waits. Everything is slow on a busy machine, so time in which no processor is idle counts only a
// tenth: a case that waits in vain ends after 15 s on a quiet machine, and within 150 s on any.
import { cpus } from 'node:os';

export const WITHIN_MS = 15_000;
/** For time limits of the product, which count all of the time. */
export const GENEROUS_MS = 60_000;

const SAMPLE_MS = 100;
let sample = { atMs: Number.NEGATIVE_INFINITY, idleMs: 0 };

/** The idle time of all processors. A sample takes 0.1 ms, so the requests of a load share one. */
function idleMs(): number {
  const atMs = performance.now();
  if (atMs - sample.atMs > SAMPLE_MS) sample = { atMs, idleMs: cpus().reduce((sum, { times }) => sum + times.idle, 0) };
  return sample.idleMs;
}

export class Wait {
  readonly #sinceMs = performance.now();
  readonly #idleMs = idleMs();

  isOver(deadlineMs: number): boolean {
    const waitedMs = performance.now() - this.#sinceMs;
    return waitedMs > deadlineMs && (waitedMs > 10 * deadlineMs || idleMs() - this.#idleMs > deadlineMs);
  }
}

/** Rejects if the promise is not settled in time. */
export async function within<T>(what: string, promise: Promise<T>, deadlineMs = WITHIN_MS): Promise<T> {
  const wait = new Wait();
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setInterval(() => {
    if (wait.isOver(deadlineMs)) reject(new Error(`not within ${deadlineMs} ms: ${what}`));
  }, 500);
  return Promise.race([promise, late]).finally(() => clearInterval(timer));
}
