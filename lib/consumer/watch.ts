// Checks every second for problems that the consumer's loops do not notice: an unavailable warehouse while there is
// nothing to land, a queue that is nearly full, and a clock that differs from the queue's.
import { WarehouseMisconfigured } from '../ingest/warehouse.ts';
import type { Timer } from '../process/clock.ts';
import { throttled, type Throttled } from '../process/log.ts';
import { messageOf } from '../process/message-of.ts';
import type { ConsumerOptions } from './consumer.ts';

const WARNING_SHARE = 0.8;
const CLOCK_SKEW_S_MAX = 60;
const INTERVAL_MS = 1_000;
/** While events land, only every fifth call probes: a probe costs as much as two landings. */
const LANDING_CALLS = 5;
const REPEAT_INTERVAL_MS = 60_000;
/** A warehouse whose probe takes longer than this is unavailable. Landing a batch may take longer. */
const WAREHOUSE_ANSWER_MS = 4_000;

export class Watch {
  readonly #options: Pick<ConsumerOptions, 'clock' | 'telemetry' | 'warehouse'>;
  readonly #sizeWarning: Throttled;
  readonly #clockWarning: Throttled;
  #timer: Timer | undefined;
  #probing: Promise<void> | undefined;
  /** Why the last probe failed; `undefined` if it succeeded. */
  warehouseTrouble: string | undefined;

  constructor(options: Pick<ConsumerOptions, 'clock' | 'telemetry' | 'warehouse'>) {
    this.#options = options;
    this.#sizeWarning = throttled(options.clock, REPEAT_INTERVAL_MS);
    this.#clockWarning = throttled(options.clock, REPEAT_INTERVAL_MS);
  }

  /** Probes of the warehouse fail before its tables are ready. */
  start(isPrepared: () => boolean): void {
    const { clock, telemetry } = this.#options;
    let [landedBefore, calls] = [0, 0];
    this.#timer ??= clock.every(INTERVAL_MS, () => {
      this.#warn();
      const { value: landed } = telemetry.metrics.landed;
      // Events that landed meanwhile show that the warehouse answers, but not that its primary key exists.
      const isLanding = landed > landedBefore;
      if (isLanding) this.warehouseTrouble = undefined;
      calls = isLanding ? calls + 1 : 0;
      if (isPrepared() && calls % LANDING_CALLS === 0)
        this.#probing ??= this.#probe().finally(() => (this.#probing = undefined));
      landedBefore = landed;
    });
  }

  async close(): Promise<void> {
    this.#timer?.close();
    await this.#probing;
  }

  #warn(): void {
    const { metrics, log } = this.#options.telemetry;
    const { clockSkewSeconds: skewS, size } = metrics.queue;
    const text = `the clock differs from the queue's by ${Math.round(skewS)} s: set the clock that is wrong`;
    if (skewS > CLOCK_SKEW_S_MAX) this.#clockWarning(() => log.warn({ skewS }, text));
    const { memoryBytes = 0, memoryLimitBytes = 0, events } = size ?? {};
    if (memoryLimitBytes === 0 || memoryBytes < WARNING_SHARE * memoryLimitBytes) return;
    const percent = Math.round((100 * memoryBytes) / memoryLimitBytes);
    const full = 'the queue is nearly full: at its limit it refuses events, until landed ones leave it after 24 hours';
    this.#sizeWarning(() => log.warn({ events, memoryBytes, memoryLimitBytes, percent }, full));
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
      this.warehouseTrouble = `${troubleOf('warehouse', cause)}: ${messageOf(cause)}`;
    } finally {
      silent.close();
    }
  }
}

export const troubleOf = (dependency: string, cause: unknown): string =>
  `the ${dependency} ${cause instanceof WarehouseMisconfigured ? 'cannot work as configured' : 'is unavailable'}`;
