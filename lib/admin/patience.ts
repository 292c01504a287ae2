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

  /** Returns immediately after progress, and pauses otherwise. */
  async wait(progress: boolean): Promise<void> {
    const { clock, queue, stopped } = this.#session;
    if (progress) this.#movedMs = clock.ms();
    else if (clock.ms() - this.#movedMs > NO_CONSUMER_MS) {
      const alive = await Promise.all(queue.streams.map((stream) => stream.replicasAlive()));
      this.deserted = alive.every((replicas) => replicas === 0);
    }
    if (!progress && !this.isOver) await clock.sleep(POLL_MS, stopped);
  }
}
