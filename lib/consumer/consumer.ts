// One replica of the consumer: claims, reads, lands and acknowledges, batch after batch.
//
//   preparing ─▶ joining ─▶ reading ─▶ landing ─▶ acknowledging ─▶ reading …
//
// Any state that fails because the queue or the warehouse is away is tried again after a pause (doubling, PAUSE_FIRST_MS
// to PAUSE_MAX_MS, half of it chance); a group that vanished leads back to joining. The batch in hand stays in hand
// until it is landed and acknowledged: nothing is read meanwhile, so memory holds one batch.
//
// Invariant: an entry is acknowledged only after its row, or its quarantine row, is committed. What a replica takes and
// never acknowledges is claimed by another one after CLAIM_IDLE_MS; both then land it, and the warehouse keeps one row.
import { GroupVanished, type Delivery, type QueueReader } from '../ingest/queue.ts';
import type { Warehouse } from '../ingest/warehouse.ts';
import { pause, pauseMs } from '../runtime/backoff.ts';
import { Throttled, type Log } from '../runtime/log.ts';
import type { ConsumerMetrics } from '../runtime/metrics.ts';
import { Landing } from './landing.ts';

/** How long an entry may stay with a replica before another one takes it over. Longer than a batch takes to land. */
const CLAIM_IDLE_MS = 10_000;
/** How long a read waits for events. A stop waits for it to end. */
const READ_WAIT_MS = 1_000;
const PAUSE_FIRST_MS = 100;
const PAUSE_MAX_MS = 5_000;
const FAILURE_LOG_INTERVAL_MS = 10_000;

/** What a step needs. */
export type Dependency = 'queue' | 'warehouse';

export interface ConsumerOptions {
  readonly reader: QueueReader;
  readonly warehouse: Warehouse;
  readonly metrics: ConsumerMetrics;
  readonly log: Log;
  readonly batchMax: number;
}

export class Consumer {
  readonly #options: ConsumerOptions;
  readonly #landing: Landing;
  readonly #stop = new AbortController();
  readonly #failureLog = new Throttled(FAILURE_LOG_INTERVAL_MS);
  #prepared = false;
  #joined = false;
  /** Why a step fails now; undefined while steps succeed. */
  #trouble: string | undefined = 'starting';

  constructor(options: ConsumerOptions) {
    this.#options = options;
    this.#landing = new Landing(options.warehouse, options.metrics, options.log);
  }

  /** Why this replica does not land events now; undefined when it does. */
  get trouble(): string | undefined {
    return this.#trouble;
  }

  get stopping(): boolean {
    return this.#stop.signal.aborted;
  }

  /** Asks `run` to end after the batch in hand. */
  stop(): void {
    this.#stop.abort();
  }

  /** Consumes until `stop`. Never rejects for a dependency that is away. */
  async run(): Promise<void> {
    const { reader, warehouse, batchMax, log } = this.#options;
    await this.#step('warehouse', () => warehouse.prepare());
    if (this.stopping) return;
    this.#prepared = true;
    log.info('the warehouse is ready');
    while (!this.stopping) {
      if (!this.#joined) await this.#step('queue', () => this.#join());
      if (this.stopping) return;
      const deliveries = await this.#step('queue', () => reader.read(batchMax, CLAIM_IDLE_MS, READ_WAIT_MS));
      if (deliveries !== undefined && deliveries.length > 0) await this.#finish(deliveries);
    }
  }

  /** Whether the schema stands: before that a probe of the warehouse says nothing. */
  get prepared(): boolean {
    return this.#prepared;
  }

  async #finish(deliveries: readonly Delivery[]): Promise<void> {
    const landed = await this.#step('warehouse', () => this.#landing.land(deliveries).then(() => true));
    if (landed !== true) return;
    await this.#step('queue', () => this.#options.reader.acknowledge(deliveries.map(({ entry }) => entry)));
  }

  async #join(): Promise<void> {
    const made = await this.#options.reader.join();
    this.#joined = true;
    if (made) this.#options.log.warn('made the consumer group, from the beginning of the queue');
  }

  /**
   * Tries `work` until it succeeds. Gives undefined when the group vanished, which is no matter of trying again, or
   * when a stop was asked for and `work` failed after that.
   */
  async #step<T>(needs: Dependency, work: () => Promise<T>): Promise<T | undefined> {
    for (let failures = 1; ; failures += 1) {
      try {
        const result = await work();
        this.#succeeded();
        return result;
      } catch (cause) {
        this.#failed(needs, cause);
        if (this.stopping) return undefined;
        await pause(pauseMs(failures, PAUSE_FIRST_MS, PAUSE_MAX_MS), this.#stop.signal);
        if (cause instanceof GroupVanished || this.stopping) return undefined;
      }
    }
  }

  #succeeded(): void {
    if (this.#trouble === undefined || !this.#joined) return;
    this.#trouble = undefined;
    this.#options.log.info('events are landing');
  }

  #failed(needs: Dependency, cause: unknown): void {
    const { metrics, log } = this.#options;
    const reason = cause instanceof Error && cause.message !== '' ? cause.message : 'unknown error';
    metrics.failures.cell({ dependency: needs }).value += 1;
    this.#trouble = `the ${needs} is away: ${reason}`;
    if (cause instanceof GroupVanished) {
      this.#joined = false;
      metrics.groupVanished.value += 1;
      log.error('the stream or its consumer group is gone; making it again from the beginning of the queue');
      return;
    }
    this.#failureLog.line((heldBack) => log.error({ reason, heldBack }, `the ${needs} is away; trying again until it is back`));
  }
}
