// Waits for consumers, and gives up if none is running.
import type { Session } from './session.ts';
import { queueStatus } from './status.ts';

const POLL_MS = 50;
/** After this time without progress, the command checks that a consumer is running. */
const NO_CONSUMER_MS = 10_000;

export class Patience {
  readonly #session: Session;
  /** Time of the last progress, or of the last check. */
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
      this.#movedMs = clock.ms();
      this.deserted = !(await queueStatus(queue)).hasConsumer;
    }
    if (!progress && !this.isOver) await clock.sleep(POLL_MS, stopped);
  }
}
