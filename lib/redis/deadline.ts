// A time limit on an answer that Redis may never give.
import { NoAnswer } from './errors.ts';

/**
 * `promise` is that of a command that was just given to the client, which has written it by the end of the next check
 * phase (node-redis waits for that one, ByteClient does not); the time counts from there. Rejects with NoAnswer after
 * `timeoutMs`; the promise itself goes on, and what it brings later is dropped. An answer that has arrived by then
 * counts, also when this process was held up and has not read it yet: timers run before sockets are read, so the
 * verdict waits for one look at those. Where `received` counts bytes, an answer that is still coming in is given as
 * much time again: a slow link is no silent server.
 */
export function withTimeout<T>(promise: Promise<T>, timeoutMs: number, received = (): number => 0): Promise<T> {
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    let settled = false;
    const written = setImmediate(() => {
      const wait = (before: number): void => {
        timer = setTimeout(() => {
          setImmediate(() => {
            const now = received();
            if (now === before) reject(new NoAnswer(`no answer within ${timeoutMs} ms`));
            else if (!settled) wait(now);
          });
        }, timeoutMs);
      };
      wait(received());
    });
    promise.then(resolve, reject).finally(() => {
      settled = true;
      clearImmediate(written);
      clearTimeout(timer);
    });
  });
}
