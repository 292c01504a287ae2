// Virtual time. Everything that the product waits for (a timer, the end of a turn, an answer) is parked here and runs
// as one step, together with all promises that it settles. The seed determines the order of steps that are due at the
// same time, so each seed is one interleaving. An actor is a process: a dead actor runs no more steps, and a frozen
// actor runs its steps later, in the same order.
import type { Random as Chance, Timer } from '../../lib/process/clock.ts';
import type { Random } from '../campaign/random.ts';
import { TimerClock } from '../support/virtual-clock.ts';

export const START_EPOCH_MS = Date.UTC(2026, 0, 1);

export interface Actor {
  readonly name: string;
  alive: boolean;
  thawsMs: number;
}

export const actor = (name: string): Actor => ({ name, alive: true, thawsMs: 0 });

interface Parked {
  atMs: number;
  readonly order: number;
  readonly number: number;
  readonly actor: Actor;
  readonly what: string;
  readonly run: () => unknown;
  closed: boolean;
}

const before = (one: Parked, other: Parked): boolean =>
  (one.atMs - other.atMs || one.order - other.order || one.number - other.number) < 0;

export class Schedule {
  /** Lines that describe the steps. Every run of a seed has the same lines. */
  readonly trace: string[] = [];
  readonly random: Random;
  /** Milliseconds by which the programs' wall clocks are ahead of the simulated time. */
  wallOffMs = 0;
  /** The latest first. */
  readonly #due: Parked[] = [];
  #nowMs = 0;
  #parked = 0;

  constructor(random: Random) {
    this.random = random;
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  note(line: string): void {
    this.trace.push(`${this.#nowMs.toFixed(3)} ${line}`);
  }

  park(actor: Actor, afterMs: number, what: string, run: () => unknown): Timer {
    const atMs = this.#nowMs + Math.max(0, afterMs);
    this.#parked += 1;
    const parked = { atMs, order: this.random.fraction(), number: this.#parked, actor, what, run, closed: false };
    this.#push(parked);
    return { close: () => (parked.closed = true), unref: () => undefined };
  }

  /** Runs the next step that is due by `endMs`. If there is none, advances the time to `endMs` and returns false. */
  async step(endMs: number): Promise<boolean> {
    for (;;) {
      const next = this.#due.at(-1);
      if (next === undefined || next.atMs > endMs) {
        this.#nowMs = Math.max(this.#nowMs, endMs);
        return false;
      }
      this.#due.pop();
      if (next.closed || !next.actor.alive) continue;
      if (next.actor.thawsMs > next.atMs) {
        next.atMs = next.actor.thawsMs;
        this.#push(next);
        continue;
      }
      this.#nowMs = next.atMs;
      if (next.what !== '') this.note(`${next.actor.name} ${next.what}`);
      await next.run();
      // Waits until the callbacks of all promises that this step settled have run.
      await new Promise<void>((resolve) => process.nextTick(() => process.nextTick(resolve)));
      return true;
    }
  }

  #push(parked: Parked): void {
    let at = this.#due.length;
    for (let low = 0; low < at;) {
      const middle = (low + at) >> 1;
      if (before(parked, this.#due[middle] as Parked)) low = middle + 1;
      else at = middle;
    }
    this.#due.splice(at, 0, parked);
  }
}

export class ActorClock extends TimerClock {
  readonly #schedule: Schedule;
  readonly #actor: Actor;

  constructor(schedule: Schedule, actor: Actor) {
    super();
    this.#schedule = schedule;
    this.#actor = actor;
  }

  epochMs(): number {
    return Math.floor(START_EPOCH_MS + this.#schedule.nowMs + this.#schedule.wallOffMs);
  }

  ms(): number {
    return this.#schedule.nowMs;
  }

  after(ms: number, run: () => void): Timer {
    return this.#schedule.park(this.#actor, ms, 'timer', run);
  }

  turnEnd(run: () => void): void {
    this.#schedule.park(this.#actor, 0, 'turn', run);
  }
}

/** A source of randomness for the product, which depends only on the seed. */
export function chance(random: Random): Chance {
  const bytes = (count: number): Buffer => Buffer.from(Array.from({ length: count }, () => random.between(0, 255)));
  return {
    fraction: () => random.fraction(),
    bytes,
    uuid: () =>
      bytes(16)
        .toString('hex')
        .replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12})$/, '$1-$2-4$3-8$4-$5'),
  };
}
