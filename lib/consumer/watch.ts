// Looks every second at what the consumer's loop does not see by itself: how far the group is behind, whether the
// warehouse can be written to while there is nothing to write, and whether events come near the time at which
// the queue drops them although they have not landed.
//
// The retention alarm comes RETENTION_MARGIN_MS before the queue drops the oldest event, as an error line that is
// repeated; the gauge `ingest_queue_oldest_unlanded_seconds` tells the same to an alerting rule. A reading that is no
// longer fresh (the queue is away) grows with the clock: it never looks better than it is.
import { GroupVanished, type QueueLag, type QueueReader } from '../ingest/queue.ts';
import { WarehouseMisconfigured, type Warehouse } from '../ingest/warehouse.ts';
import type { ConsumerMetrics } from './metrics.ts';
import { Throttled, type Log } from '../process/log.ts';

/** How long before its loss an event that has not landed is called out: time for people to act. */
const RETENTION_MARGIN_MS = 4 * 60 * 60 * 1000;
const INTERVAL_MS = 1_000;
const ALARM_INTERVAL_MS = 60_000;
/** A warehouse that takes longer to say whether it can be written to counts as away; a landing may take longer. */
const WAREHOUSE_ANSWER_MS = 4_000;

/** As it was read, and when. */
type Lag = QueueLag & { readonly readAtMs: number };

const oldestSeconds = ({ events, oldestMs, readAtMs }: Lag): number =>
  events === 0 ? 0 : (oldestMs + performance.now() - readAtMs) / 1000;

export interface WatchOptions {
  readonly reader: QueueReader;
  readonly warehouse: Warehouse;
  readonly metrics: ConsumerMetrics;
  readonly log: Log;
  /** How long the queue keeps what has not landed, in milliseconds. */
  readonly unlandedMs: number;
  /** Whether the warehouse's schema stands; before that it is not asked. */
  readonly prepared: () => boolean;
}

export class Watch {
  readonly #options: WatchOptions;
  readonly #alarm = new Throttled(ALARM_INTERVAL_MS);
  #timer: NodeJS.Timeout | undefined;
  /** By partition, each with when it was read. */
  readonly #lags = new Map<string, Lag>();
  #warehouseTrouble: string | undefined;
  /** Since when the warehouse is being asked, on the process's clock; undefined while it is not. */
  #warehouseAskedMs: number | undefined;
  #looking: Promise<void> | undefined;

  constructor(options: WatchOptions) {
    this.#options = options;
    options.metrics.lagEvents.readEach(() => this.#samples(({ events }) => events));
    options.metrics.oldestUnlandedSeconds.readEach(() => this.#samples(oldestSeconds));
  }

  start(): void {
    this.#timer ??= setInterval(() => {
      this.#looking ??= this.#look().finally(() => (this.#looking = undefined));
    }, INTERVAL_MS);
  }

  /** One sample for each partition; without a label where there is one. */
  #samples(value: (lag: Lag) => number): { labels: Record<string, string>; value: number }[] {
    if (this.#lags.size === 0) return [{ labels: {}, value: 0 }];
    return [...this.#lags].map(([partition, lag]) => ({
      labels: this.#lags.size === 1 ? {} : { partition },
      value: value(lag),
    }));
  }

  /** Why the warehouse cannot be written to, by the last look; undefined when it can. */
  get warehouseTrouble(): string | undefined {
    const waitedMs = performance.now() - (this.#warehouseAskedMs ?? Number.POSITIVE_INFINITY);
    if (waitedMs > WAREHOUSE_ANSWER_MS) return 'the warehouse is away: it does not answer';
    return this.#warehouseTrouble;
  }

  /** Ends after the look that is under way. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#looking;
  }

  async #look(): Promise<void> {
    await Promise.all([this.#lookAtQueue(), this.#lookAtWarehouse()]);
  }

  async #lookAtQueue(): Promise<void> {
    try {
      const readAtMs = performance.now();
      for (const [partition, lag] of await this.#options.reader.lags()) this.#lags.set(partition, { ...lag, readAtMs });
    } catch (cause) {
      // The loop tells of a queue that is away. A group that is gone has nothing to be behind of, until it is made
      // again.
      if (cause instanceof GroupVanished) this.#lags.clear();
    }
    const { unlandedMs } = this.#options;
    const lags = [...this.#lags.values()];
    const oldestS = Math.round(Math.max(0, ...lags.map(oldestSeconds)));
    if (oldestS * 1000 < unlandedMs - RETENTION_MARGIN_MS) return;
    const events = lags.reduce((sum, lag) => sum + lag.events, 0);
    this.#alarm.line(() =>
      this.#options.log.error(
        { events, oldestS, limitS: unlandedMs / 1000 },
        'events that have not landed are about to leave the queue: they will be lost unless they land before INGEST_QUEUE_UNLANDED_HOURS_MAX is over',
      ),
    );
  }

  async #lookAtWarehouse(): Promise<void> {
    if (!this.#options.prepared()) return;
    this.#warehouseAskedMs = performance.now();
    try {
      await this.#options.warehouse.probe();
      this.#warehouseTrouble = undefined;
    } catch (cause) {
      const what = cause instanceof WarehouseMisconfigured ? 'cannot work as configured' : 'is away';
      this.#warehouseTrouble = `the warehouse ${what}: ${cause instanceof Error ? cause.message : 'unknown error'}`;
    } finally {
      this.#warehouseAskedMs = undefined;
    }
  }
}
