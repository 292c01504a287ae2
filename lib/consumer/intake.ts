// Reads ahead: the next entries are read and wait here while the ones before are landing.
//
// Why: reading keeps Redis and the network busy, landing the warehouse; one after the other each waits for the other. And a
// commit costs the same for many events as for few, so what came while the last one ran is taken as one batch. Where
// the queue has a backlog (`more`), the taker waits for a full intake: the next read does not wait for events.
//
// Invariants: at most `max` entries wait here; a read that would go past that waits until there is room, so a warehouse
// that is away fills no memory. Entries leave in the order in which they came. What waits here when the process dies is
// pending in the queue, and another replica claims it.
import type { Delivery } from '../ingest/queue.ts';

export class Intake {
  readonly #max: number;
  #waiting: Delivery[] = [];
  #more = false;
  #ended = false;
  #wakeTaker: () => void = () => undefined;
  #wakeReader: () => void = () => undefined;

  constructor(max: number) {
    this.#max = max;
  }

  /** Whether the taker waits for the next read: it must not wait for events then. */
  get filling(): boolean {
    return this.#more;
  }

  /** The next read may take long: what is here may be taken. */
  settle(): void {
    this.#more = false;
    this.#wakeTaker();
  }

  /** Resolves when there is room for `wanted` more, or when the intake has ended. */
  async room(wanted: number): Promise<void> {
    while (this.#waiting.length > this.#max - wanted && !this.#ended) {
      await new Promise<void>((resolve) => (this.#wakeReader = resolve));
    }
  }

  /** `more`: the queue holds more of them, so that the next ones are here in no time. */
  add(deliveries: readonly Delivery[], more: boolean): void {
    this.#more = more && this.#waiting.length + 2 * deliveries.length <= this.#max;
    this.#waiting = this.#waiting.length === 0 ? [...deliveries] : this.#waiting.concat(deliveries);
    this.#wakeTaker();
  }

  /** Everything that waits; waits for the first. Undefined once the intake has ended and is empty. */
  async take(): Promise<readonly Delivery[] | undefined> {
    while (this.#waiting.length === 0 || this.#more) {
      if (this.#ended && this.#waiting.length === 0) return undefined;
      await new Promise<void>((resolve) => (this.#wakeTaker = resolve));
    }
    const taken = this.#waiting;
    this.#waiting = [];
    this.#wakeReader();
    return taken;
  }

  /** Nothing more comes. */
  end(): void {
    this.#ended = true;
    this.#more = false;
    this.#wakeTaker();
    this.#wakeReader();
  }
}
