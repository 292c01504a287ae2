// Waits for a condition under a deadline: what tests do in place of sleeping.
import { setTimeout as delay } from 'node:timers/promises';

const INTERVAL_MS = 15;

/** Asks again and again until the answer is neither undefined nor false. Rejects at the deadline, saying what was wanted. */
export async function until<T>(what: string, timeoutMs: number, ask: () => T | Promise<T>): Promise<Exclude<T, undefined | false>> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined && answer !== false) return answer as Exclude<T, undefined | false>;
    if (performance.now() > deadline) throw new Error(`not within ${timeoutMs} ms: ${what}`);
    await delay(INTERVAL_MS);
  }
}
