// Checks every second for problems that the consumer's loops do not notice: an unavailable warehouse while there is
// nothing to land, a queue that is nearly full, and a clock that differs from the queue's.
import { WarehouseMisconfigured, type Warehouse } from '../ingest/warehouse.ts';
import type { Clock, Timer } from '../process/clock.ts';
import { Throttled, type Log } from '../process/log.ts';
import { messageOf } from '../process/message-of.ts';
import type { QueueGauges } from '../telemetry/queue-gauges.ts';

const WARNING_SHARE = 0.8;
const CLOCK_SKEW_S_MAX = 60;
const INTERVAL_MS = 1_000;
const REPEAT_INTERVAL_MS = 60_000;
/** A warehouse whose probe takes longer than this is unavailable. Landing a batch may take longer. */
const WAREHOUSE_ANSWER_MS = 4_000;

export interface WatchOptions {
  readonly queue: Pick<QueueGauges, 'size' | 'clockSkewSeconds'>;
  readonly warehouse: Pick<Warehouse, 'probe'>;
  readonly clock: Clock;
  readonly log: Log;
  /** True once the tables are ready. The warehouse is not probed before that. */
  readonly prepared: () => boolean;
}

export class Watch {
  readonly #options: WatchOptions;
  readonly #sizeWarning: Throttled;
  readonly #clockWarning: Throttled;
  #timer: Timer | undefined;
  #probing: Promise<void> | undefined;
  /** Why the last probe failed; `undefined` if it succeeded. */
  warehouseTrouble: string | undefined;

  constructor(options: WatchOptions) {
    this.#options = options;
    this.#sizeWarning = new Throttled(options.clock, REPEAT_INTERVAL_MS);
    this.#clockWarning = new Throttled(options.clock, REPEAT_INTERVAL_MS);
  }

  start(): void {
    this.#timer ??= this.#options.clock.every(INTERVAL_MS, () => {
      this.#warn();
      if (this.#options.prepared()) this.#probing ??= this.#probe().finally(() => (this.#probing = undefined));
    });
  }

  async close(): Promise<void> {
    this.#timer?.close();
    await this.#probing;
  }

  #warn(): void {
    const { queue, log } = this.#options;
    const skewS = queue.clockSkewSeconds;
    if (skewS > CLOCK_SKEW_S_MAX) {
      const text = `the clock differs from the queue's by ${Math.round(skewS)} s: set the clock that is wrong`;
      this.#clockWarning.line(() => log.warn({ skewS }, text));
    }
    const { memoryBytes = 0, memoryLimitBytes = 0, events } = queue.size ?? {};
    if (memoryLimitBytes === 0 || memoryBytes < WARNING_SHARE * memoryLimitBytes) return;
    const percent = Math.round((100 * memoryBytes) / memoryLimitBytes);
    this.#sizeWarning.line(() =>
      log.warn(
        { events, memoryBytes, memoryLimitBytes, percent },
        'the queue is nearly full: at its limit it refuses events, until landed ones leave it after 24 hours',
      ),
    );
  }

  async #probe(): Promise<void> {
    const { warehouse, clock } = this.#options;
    const silent = clock.after(WAREHOUSE_ANSWER_MS, () => {
      this.warehouseTrouble = 'the warehouse is unavailable: it does not answer';
    });
    try {
      await warehouse.probe();
      this.warehouseTrouble = undefined;
    } catch (cause) {
      const what = cause instanceof WarehouseMisconfigured ? 'cannot work as configured' : 'is unavailable';
      this.warehouseTrouble = `the warehouse ${what}: ${messageOf(cause)}`;
    } finally {
      silent.close();
    }
  }
}
