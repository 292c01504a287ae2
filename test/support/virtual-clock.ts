// A clock that stands still until a test advances it.
import type { Clock, Timer } from '../../lib/process/clock.ts';

interface Due {
  readonly atMs: number;
  /** The order in which timers were set. Timers due at the same time run in this order. */
  readonly number: number;
  readonly run: () => void;
}

const START_EPOCH_MS = Date.UTC(2026, 0, 1);
/** Turns of the event loop that promises and in-process fakes need after a timer. */
const SETTLING_TURNS = 4;

/** Repetition and pauses, made of single timers. */
export abstract class TimerClock implements Clock {
  abstract epochMs(): number;
  abstract ms(): number;
  abstract after(ms: number, run: () => void): Timer;
  abstract turnEnd(run: () => void): void;

  nextTurnEnd(run: () => void): void {
    setImmediate(run).unref();
  }

  every(ms: number, run: () => void): Timer {
    let timer: Timer;
    const again = (): void => {
      timer = this.after(Math.max(1, ms), () => {
        again();
        run();
      });
    };
    again();
    return { close: () => timer.close(), unref: () => undefined };
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted === true) return Promise.resolve();
    return new Promise((resolve) => {
      const done = (): void => {
        timer.close();
        signal?.removeEventListener('abort', done);
        resolve();
      };
      const timer = this.after(ms, done);
      signal?.addEventListener('abort', done);
    });
  }
}

export class VirtualClock extends TimerClock {
  #nowMs = 0;
  #epochMs = START_EPOCH_MS;
  #set = 0;
  readonly #due = new Set<Due>();

  epochMs(): number {
    return Math.floor(this.#epochMs);
  }

  ms(): number {
    return this.#nowMs;
  }

  after(ms: number, run: () => void): Timer {
    const due = { atMs: this.#nowMs + Math.max(0, ms), number: (this.#set += 1), run };
    this.#due.add(due);
    return { close: () => this.#due.delete(due), unref: () => undefined };
  }

  turnEnd(run: () => void): void {
    setImmediate(run);
  }

  get pending(): number {
    return this.#due.size;
  }

  /** Changes only the wall clock, as an operator or NTP would. */
  jump(ms: number): void {
    this.#epochMs += ms;
  }

  async advance(ms: number): Promise<void> {
    const endMs = this.#nowMs + ms;
    await this.settle();
    for (let next = this.#next(endMs); next !== undefined; next = this.#next(endMs)) {
      this.#move(next.atMs);
      this.#due.delete(next);
      next.run();
      await this.settle();
    }
    this.#move(endMs);
  }

  /** Waits until everything that does not need a timer has run. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < SETTLING_TURNS; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  }

  #next(endMs: number): Due | undefined {
    const due = [...this.#due].filter(({ atMs }) => atMs <= endMs);
    return due.sort((one, other) => one.atMs - other.atMs || one.number - other.number)[0];
  }

  #move(toMs: number): void {
    this.#epochMs += toMs - this.#nowMs;
    this.#nowMs = toMs;
  }
}
