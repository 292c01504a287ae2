// Where the master of a queue is, and a watch for one that was replaced and does not say so itself.
//
// Invariant: a watch tells of another master once at most, and never after `end`.
import type { Clock, Timer } from '../../process/clock.ts';
import type { RedisError } from '../wire/errors.ts';

/** Knows where a master is. */
export interface MasterLookup {
  /**
   * The master now, as a `redis://` or `rediss://` URI. Asked before each connection; `cause` is what ended the last
   * one, where the server said so. Rejects where none of them knows.
   */
  readonly find: (cause: RedisError | undefined) => Promise<string>;
  /**
   * How often to look whether it is another one, in milliseconds, where a master that is replaced does not say so
   * itself.
   */
  readonly watchMs?: number;
}

export class MasterWatch {
  readonly #clock: Clock;
  #timer: Timer | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Looks again and again, and calls `onOther` when the master is another server than `uri`. */
  begin(lookup: MasterLookup, uri: string, onOther: () => void): void {
    this.end();
    if (lookup.watchMs === undefined) return;
    const timer = this.#clock.after(lookup.watchMs, () => {
      void lookup.find(undefined).then(
        (found) => {
          if (timer !== this.#timer) return;
          if (new URL(found).host === new URL(uri).host) this.begin(lookup, uri, onOther);
          else onOther();
        },
        () => {
          if (timer === this.#timer) this.begin(lookup, uri, onOther);
        },
      );
    });
    this.#timer = timer;
  }

  end(): void {
    this.#timer?.close();
    this.#timer = undefined;
  }
}
