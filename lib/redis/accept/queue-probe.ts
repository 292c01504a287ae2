// The state of the queue, from periodic probes and from refused or overdue calls.
//
// Invariants: the queue is available only if a recent probe succeeded. Each change is logged once.
import type { QueueState } from '../../ingest/queue.ts';
import type { Clock } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import { isStillSilent, messageOf } from '../../process/message-of.ts';

export const PROBE_INTERVAL_MS = 500;
export const PROBE_TIMEOUT_MS = 600;

export class QueueProbe {
  readonly #call: () => Promise<void>;
  readonly #clock: Clock;
  readonly #log: Log;
  #asking = false;
  #answeredMs = Number.NEGATIVE_INFINITY;
  #reason: string | undefined = 'not asked yet';

  /** `call` is a write that changes nothing, and fails if Redis is full or read-only. */
  constructor(call: () => Promise<void>, clock: Clock, log: Log) {
    this.#call = call;
    this.#clock = clock;
    this.#log = log;
  }

  state(): QueueState {
    if (this.#reason !== undefined) return { available: false, reason: this.#reason };
    // Without an outstanding probe, this process is late itself.
    if (this.#asking && this.#clock.ms() - this.#answeredMs > PROBE_INTERVAL_MS + PROBE_TIMEOUT_MS)
      return { available: false, reason: 'the queue has not answered lately' };
    return { available: true };
  }

  /** Returns the new state, or the last one if a probe is outstanding. */
  async ask(): Promise<QueueState> {
    if (this.#asking) return this.state();
    this.#asking = true;
    try {
      await this.#call();
      this.#answeredMs = this.#clock.ms();
      this.says(undefined);
    } catch (cause) {
      this.says(messageOf(cause));
    } finally {
      this.#asking = false;
    }
    return this.state();
  }

  /** Sets the reason why the queue accepts no events, or `undefined`. Logs a change. Silence keeps its first one. */
  says(reason: string | undefined): void {
    const before = this.#reason;
    if (reason === before || isStillSilent(reason ?? '', before)) return;
    this.#reason = reason;
    if (reason === undefined) this.#log.info('the queue takes events');
    else if (before === undefined) this.#log.error({ reason }, 'the queue takes no events');
  }
}
