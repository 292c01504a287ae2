// A time limit on an answer that Redis may never give.
import { NoAnswer } from './errors.ts';

/**
 * `promise` is that of a command that was just given to the client, which has written it by the end of the next check phase
 * (node-redis waits for that one, ByteClient does not); the time counts from there. Rejects with NoAnswer after `timeoutMs`; the
 * promise itself goes on, and what it brings later is dropped. An answer that has arrived by then counts, also when this process was held up and has not read it yet: timers run before sockets
 * are read, so the verdict waits for one look at those.
 */
export function withTimeout<T>(promise: Promise<T>, timeoutMs: number): Promise<T> {
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    const written = setImmediate(() => {
      timer = setTimeout(() => {
        setImmediate(() => reject(new NoAnswer(`no answer within ${timeoutMs} ms`)));
      }, timeoutMs);
    });
    promise.then(resolve, reject).finally(() => {
      clearImmediate(written);
      clearTimeout(timer);
    });
  });
}
