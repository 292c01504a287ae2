// Looks every few seconds at how much the queue holds and how much its server may hold: the queue keeps every event for
// its retention, landed or not, so its memory is the capacity of the whole system.
//
// From WARNING_SHARE of the limit on the log has a warning, which is repeated. The gauges have no samples while there
// is no fresh reading: no value is better than an old one, for an alert that computes how many hours are left.
import type { QueueReader, QueueSize } from '../ingest/queue.ts';
import { Throttled, type Log } from '../process/log.ts';
import type { ConsumerMetrics } from './metrics.ts';

const INTERVAL_MS = 5_000;
/** Older readings are not shown. */
const FRESH_MS = 3 * INTERVAL_MS;
const WARNING_SHARE = 0.8;
const WARNING_INTERVAL_MS = 60_000;

export interface SizeWatchOptions {
  readonly reader: Pick<QueueReader, 'size'>;
  readonly metrics: Pick<ConsumerMetrics, 'queueEvents' | 'queueMemory' | 'queueMemoryLimit'>;
  readonly log: Log;
}

export class SizeWatch {
  readonly #options: SizeWatchOptions;
  readonly #warning = new Throttled(WARNING_INTERVAL_MS);
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | undefined;
  #size: QueueSize | undefined;
  #readAtMs = 0;

  constructor(options: SizeWatchOptions) {
    this.#options = options;
    const { queueEvents, queueMemory, queueMemoryLimit } = options.metrics;
    queueEvents.readEach(() => this.#sample((size) => size.events));
    queueMemory.readEach(() => this.#sample((size) => size.memoryBytes));
    queueMemoryLimit.readEach(() => this.#sample((size) => size.memoryLimitBytes));
  }

  start(): void {
    this.#begin();
    this.#timer ??= setInterval(() => this.#begin(), INTERVAL_MS);
  }

  /** Ends after the look that is under way. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#looking;
  }

  #begin(): void {
    this.#looking ??= this.#look().finally(() => (this.#looking = undefined));
  }

  async #look(): Promise<void> {
    // A queue that is away is told of by the consumer's loop; here the reading gets old.
    const size = await this.#options.reader.size().catch(() => undefined);
    if (size === undefined) return;
    this.#size = size;
    this.#readAtMs = performance.now();
    const { events, memoryBytes = 0, memoryLimitBytes = 0 } = size;
    if (memoryLimitBytes === 0 || memoryBytes < WARNING_SHARE * memoryLimitBytes) return;
    const percent = Math.round((100 * memoryBytes) / memoryLimitBytes);
    this.#warning.line(() =>
      this.#options.log.warn(
        { events, memoryBytes, memoryLimitBytes, percent },
        'the queue is nearly full: at its limit it refuses events until old ones leave it after their retention',
      ),
    );
  }

  #sample(value: (size: QueueSize) => number | undefined): { labels: Record<string, string>; value: number }[] {
    const fresh = this.#size !== undefined && performance.now() - this.#readAtMs < FRESH_MS;
    const number = fresh && this.#size !== undefined ? value(this.#size) : undefined;
    return number === undefined ? [] : [{ labels: {}, value: number }];
  }
}
