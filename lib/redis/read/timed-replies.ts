// The replies of a connection, with their time limits. A connection whose server is silent is replaced.
import { GroupVanished } from '../../ingest/queue.ts';
import type { Clock } from '../../process/clock.ts';
import { TimeLimits } from '../../process/time-limits.ts';
import type { RedisConnection } from '../server/connection.ts';
import { hasCode, NoAnswer } from '../wire/errors.ts';

const ANSWER_TIMEOUT_MS = 3_000;

export class Replies {
  readonly connection: RedisConnection;
  readonly #limits: TimeLimits;
  readonly #onRefused: (cause: unknown) => void;

  constructor(clock: Clock, connection: RedisConnection, onRefused: (cause: unknown) => void) {
    this.connection = connection;
    this.#limits = new TimeLimits(clock);
    this.#onRefused = onRefused;
  }

  /** Waits for a reply, with a time limit that is `waitMs` longer. A reply that is still arriving gets more time. */
  of<T>(reply: Promise<T>, waitMs = 0): Promise<T> {
    return new Promise((resolve, reject) => {
      let received = this.connection.bytesReceived;
      const late = (): void => {
        const before = received;
        received = this.connection.bytesReceived;
        if (received !== before) return void (limit = this.#limits.add(ANSWER_TIMEOUT_MS, late));
        reject(new NoAnswer(`no answer within ${waitMs + ANSWER_TIMEOUT_MS} ms`));
        this.connection.restart('the server does not answer');
      };
      let limit = this.#limits.add(waitMs + ANSWER_TIMEOUT_MS, late);
      reply.then(
        (value) => {
          this.#limits.remove(limit);
          resolve(value);
        },
        (cause: Error) => {
          this.#limits.remove(limit);
          this.#onRefused(cause);
          reject(hasCode(cause, 'NOGROUP') ? new GroupVanished('the stream or its group is gone', { cause }) : cause);
        },
      );
    });
  }
}
