// Looks every second at what the consumer's loop does not see by itself: whether the warehouse can be written to while
// there is nothing to write, whether events come near the time at which the queue drops them although they have not
// landed, and whether the queue's memory is nearly full. The last two are read off the queue's gauges.
//
// The retention alarm comes RETENTION_MARGIN_MS before the queue drops the oldest event, as an error line that is
// repeated; the memory warning from WARNING_SHARE of the limit on.
import { WarehouseMisconfigured, type Warehouse } from '../ingest/warehouse.ts';
import type { Clock, Timer } from '../process/clock.ts';
import { Throttled, type Log } from '../process/log.ts';
import { messageOf } from '../process/message-of.ts';
import type { QueueGauges } from '../telemetry/queue-gauges.ts';

/** How long before its loss an event that has not landed is called out: time for people to act. */
const RETENTION_MARGIN_MS = 4 * 60 * 60 * 1000;
const WARNING_SHARE = 0.8;
const INTERVAL_MS = 1_000;
const REPEAT_INTERVAL_MS = 60_000;
/** A warehouse that takes longer to say whether it can be written to counts as away; a landing may take longer. */
const WAREHOUSE_ANSWER_MS = 4_000;

export interface WatchOptions {
  readonly queue: Pick<QueueGauges, 'lag' | 'size'>;
  readonly warehouse: Pick<Warehouse, 'probe'>;
  readonly clock: Clock;
  readonly log: Log;
  /** How long the queue keeps what has not landed, in milliseconds. */
  readonly unlandedMs: number;
  /** Whether the warehouse has its schema; before that it is not asked. */
  readonly prepared: () => boolean;
}

export class Watch {
  readonly #options: WatchOptions;
  readonly #alarm: Throttled;
  readonly #warning: Throttled;
  #timer: Timer | undefined;
  #warehouseTrouble: string | undefined;
  /** Since when the warehouse is being asked, on the process's clock; undefined while it is not. */
  #warehouseAskedMs: number | undefined;
  #looking: Promise<void> | undefined;

  constructor(options: WatchOptions) {
    this.#options = options;
    this.#alarm = new Throttled(options.clock, REPEAT_INTERVAL_MS);
    this.#warning = new Throttled(options.clock, REPEAT_INTERVAL_MS);
  }

  start(): void {
    this.#timer ??= this.#options.clock.every(INTERVAL_MS, () => {
      this.#lookAtQueue();
      this.#looking ??= this.#lookAtWarehouse().finally(() => (this.#looking = undefined));
    });
  }

  /** Why the warehouse cannot be written to, by the last look; undefined when it can. */
  get warehouseTrouble(): string | undefined {
    const waitedMs = this.#options.clock.ms() - (this.#warehouseAskedMs ?? Number.POSITIVE_INFINITY);
    if (waitedMs > WAREHOUSE_ANSWER_MS) return 'the warehouse is away: it does not answer';
    return this.#warehouseTrouble;
  }

  /** Ends after the look that is under way. */
  async close(): Promise<void> {
    this.#timer?.close();
    await this.#looking;
  }

  #lookAtQueue(): void {
    const { queue, unlandedMs, log } = this.#options;
    const { events, oldestSeconds } = queue.lag;
    if (oldestSeconds * 1000 >= unlandedMs - RETENTION_MARGIN_MS)
      this.#alarm.line(() =>
        log.error(
          { events, oldestS: Math.round(oldestSeconds), limitS: unlandedMs / 1000 },
          'events that have not landed are about to leave the queue: ' +
            'they will be lost unless they land before INGEST_QUEUE_UNLANDED_HOURS_MAX is over',
        ),
      );
    const { memoryBytes = 0, memoryLimitBytes = 0, events: held } = queue.size ?? {};
    if (memoryLimitBytes === 0 || memoryBytes < WARNING_SHARE * memoryLimitBytes) return;
    const percent = Math.round((100 * memoryBytes) / memoryLimitBytes);
    this.#warning.line(() =>
      log.warn(
        { events: held, memoryBytes, memoryLimitBytes, percent },
        'the queue is nearly full: at its limit it refuses events until old ones leave it after their retention',
      ),
    );
  }

  async #lookAtWarehouse(): Promise<void> {
    if (!this.#options.prepared()) return;
    this.#warehouseAskedMs = this.#options.clock.ms();
    try {
      await this.#options.warehouse.probe();
      this.#warehouseTrouble = undefined;
    } catch (cause) {
      const what = cause instanceof WarehouseMisconfigured ? 'cannot work as configured' : 'is away';
      this.#warehouseTrouble = `the warehouse ${what}: ${messageOf(cause)}`;
    } finally {
      this.#warehouseAskedMs = undefined;
    }
  }
}
