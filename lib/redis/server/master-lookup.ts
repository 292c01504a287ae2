// Looks up a queue's master, and watches for a replaced master that does not report the change itself.
import type { Clock, Timer } from '../../process/clock.ts';
import type { RedisError } from '../wire/errors.ts';

export interface MasterLookup {
  /** Returns the current master's URI. Called before each connection; `cause` is the reply that ended the last one. */
  readonly find: (cause: RedisError | undefined) => Promise<string>;
  /** The interval of the watch; unset if a replaced master reports the change itself. */
  readonly watchMs?: number;
}

export class MasterWatch {
  readonly #clock: Clock;
  #timer: Timer | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Polls until the master is a server other than `uri`, then calls `onOther` once. */
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
