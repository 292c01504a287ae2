import type { Clock, Timer } from '../../process/clock.ts';
import { NoAnswer } from './errors.ts';

/**
 * Rejects with NoAnswer after `timeoutMs`. The promise continues, and its later result is dropped.
 *
 * The time starts after the next check phase, when the client has written the command. Sockets are read once before
 * the time is up, so a reply that arrived while this process was busy is in time.
 */
export function withTimeout<T>(clock: Clock, promise: Promise<T>, timeoutMs: number): Promise<T> {
  return new Promise((resolve, reject) => {
    let timer: Timer | undefined;
    let settled = false;
    const late = (): void => reject(new NoAnswer(`no answer within ${timeoutMs} ms`));
    clock.turnEnd(() => {
      if (!settled) timer = clock.after(timeoutMs, () => clock.turnEnd(late));
    });
    promise.then(resolve, reject).finally(() => {
      settled = true;
      timer?.close();
    });
  });
}
