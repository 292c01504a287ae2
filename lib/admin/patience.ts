// Waits for consumers, and gives up if none is running.
import type { Session } from './session.ts';

const POLL_MS = 50;
/** After this time without progress, the command checks that a consumer is running. */
const NO_CONSUMER_MS = 10_000;

export class Patience {
  readonly #session: Session;
  #movedMs: number;
  /** True if no consumer is running. */
  deserted = false;

  constructor(session: Session) {
    this.#session = session;
    this.#movedMs = session.clock.ms();
  }

  get isOver(): boolean {
    return this.deserted || this.#session.stopped.aborted;
  }

  moved(): void {
    this.#movedMs = this.#session.clock.ms();
  }

  async wait(): Promise<void> {
    const { clock, queue, stopped } = this.#session;
    if (clock.ms() - this.#movedMs > NO_CONSUMER_MS) {
      const alive = await Promise.all(queue.streams.map((stream) => stream.replicasAlive()));
      this.deserted = !alive.some((replicas) => replicas > 0);
    }
    if (!this.isOver) await clock.sleep(POLL_MS, stopped);
  }
}
