// The consumer of one stream, as loops that work side by side:
//
//   preparing ─▶ taking in:  taking a place ─▶ joining ─▶ reading ─▶ judging, while the next is being read …
//            └─▶ landing:    landing ─▶ acknowledging ─▶ landing …       (LANDINGS_AT_ONCE times)
//
// A group that vanished leads from reading back to joining.
//
// Any step that fails because the queue or the warehouse is unavailable is tried again after a pause (doubling,
// PAUSE_FIRST_MS to PAUSE_MAX_MS, with 50 % jitter). A batch stays in hand until it is landed and acknowledged;
// meanwhile reading goes on until the intake is full, so memory holds what the intake holds, and LANDINGS_AT_ONCE times
// as much.
//
// Batches land in no order among each other: the warehouse's primary key decides which of two events of an id is the
// row.
//
// Invariant: an entry is acknowledged only after its row, or its quarantine row, is committed. What a replica takes and
// never acknowledges is claimed by another one after CLAIM_IDLE_MS; both then land it, and the warehouse keeps one row.
import { GroupVanished, type Delivery, type QueueReader } from '../ingest/queue.ts';
import { TablesDiffer, WarehouseMisconfigured, type Warehouse } from '../ingest/warehouse.ts';
import { pauseMs } from '../process/backoff.ts';
import type { ClockAndRandom } from '../process/clock.ts';
import { Throttled } from '../process/log.ts';
import { messageOf } from '../process/message-of.ts';
import { Intake, READS_AT_ONCE, readEntriesMax } from './intake.ts';
import { Landing, LANDINGS_AT_ONCE, QueueStepFailed, type LandingSlots, type Telemetry } from './landing.ts';
import { classify, type Entered, type TypeSchemas } from './quarantine.ts';

/** How long an entry may stay with a replica before another one takes it over. Longer than a batch takes to land. */
const CLAIM_IDLE_MS = 10_000;
/** In a backlog, this many times `batchMax` entries form one batch: a commit costs the same for many. */
const BATCHES_AT_ONCE = 8;
/** A read that brings as many tells of a backlog, also where several partitions share it and it might bring more. */
const BACKLOG_ENTRIES = 16;
/** How long a read waits for events. A stop waits for it to end. */
const READ_WAIT_MS = 1_000;
/** How often a consumer without a place asks for one. */
const PLACE_INTERVAL_MS = 1_000;
const PAUSE_FIRST_MS = 100;
/**
 * The queue's connection is made again by itself, and a try without one costs nothing: after a fail-over events land at
 * once.
 */
const PAUSE_MAX_MS: Readonly<Record<Dependency, number>> = { queue: 1_000, warehouse: 5_000 };
const FAILURE_LOG_INTERVAL_MS = 10_000;
/** Each try may hold up landing and look-ups for a moment. */
const MIGRATION_PAUSE_FIRST_MS = 1_000;
const MIGRATION_PAUSE_MAX_MS = 10_000;

/** The trouble of a replica that has not asked the queue yet. */
const FULL = 'INGEST_CONSUMER_REPLICAS_MAX other consumers read the stream';
const NOT_JOINED = 'the queue is not joined yet';

/** What a step needs. */
export type Dependency = 'queue' | 'warehouse';

export interface ConsumerLimits {
  readonly batchMax: number;
  /** Consumers that may read the stream. */
  readonly replicasMax: number;
  /** Streams that this process consumes: they share its bounds on bytes. */
  readonly streams: number;
  /** Shared by the consumers of all streams. */
  readonly slots: LandingSlots;
}

export interface ConsumerOptions extends ClockAndRandom {
  readonly reader: QueueReader;
  readonly warehouse: Warehouse;
  readonly telemetry: Telemetry;
  readonly limits: ConsumerLimits;
  readonly schemas?: TypeSchemas | undefined;
}

export class Consumer {
  readonly #options: ConsumerOptions;
  readonly #landing: Landing;
  readonly #intake: Intake;
  readonly #stop = new AbortController();
  readonly #failureLog: Throttled;
  readonly #migrationLog: Throttled;
  readonly #troubles = new Map<Dependency, string>([['queue', NOT_JOINED]]);
  /** What a line said to be away since it last answered. */
  readonly #loggedAway = new Set<Dependency>();
  #prepared = false;
  #placed = false;
  #full = false;
  #joined = false;
  /** Whether the last read brought as many entries as one does where the queue holds more. */
  #backlog = false;

  constructor(options: ConsumerOptions) {
    this.#options = options;
    this.#failureLog = new Throttled(options.clock, FAILURE_LOG_INTERVAL_MS);
    this.#migrationLog = new Throttled(options.clock, FAILURE_LOG_INTERVAL_MS);
    this.#landing = new Landing(options);
    const { reader, limits } = options;
    const { batchMax, streams } = limits;
    const readMax = (): number => Math.min(batchMax, readEntriesMax(reader.bodyBytesMax, streams));
    this.#intake = new Intake({ wanted: BATCHES_AT_ONCE * batchMax, readMax, streams });
  }

  /** Why this replica does not land events now; undefined when it does. */
  get trouble(): string | undefined {
    if (this.#full) return FULL;
    const troubles = [...this.#troubles.values()];
    return troubles.find((trouble) => trouble !== NOT_JOINED) ?? troubles[0];
  }

  /** Whether the warehouse answers: it was prepared, and the last step that needed it, if there was one, succeeded. */
  get warehouseAnswers(): boolean {
    return this.#prepared && !this.#troubles.has('warehouse');
  }

  /** Whether the queue answers: the last step that needed it, if there was one, succeeded. */
  get queueAnswers(): boolean {
    return (this.#troubles.get('queue') ?? NOT_JOINED) === NOT_JOINED;
  }

  /** Whether it does not read, because as many consumers as there may be do. */
  get full(): boolean {
    return this.#full;
  }

  /** Whether the warehouse's schema is complete: before that a probe of it says nothing. */
  get prepared(): boolean {
    return this.#prepared;
  }

  get stopping(): boolean {
    return this.#stop.signal.aborted;
  }

  /** Asks `run` to end after what is in hand. */
  stop(): void {
    this.#stop.abort();
  }

  /** Consumes until `stop`. Rejects with TablesDiffer, and never for a dependency that is unavailable. */
  async run(): Promise<void> {
    const waits = await this.#step('warehouse', () => this.#options.warehouse.prepare());
    if (this.stopping) return;
    this.#prepared = true;
    this.#options.telemetry.log.info('the warehouse is ready');
    const landing = Array.from({ length: LANDINGS_AT_ONCE }, () => this.#land());
    await Promise.all([this.#migrateLater(waits), this.#takeIn(), ...landing]);
  }

  /** Tries the migration again until it is done, while events land in the tables as they are. */
  async #migrateLater(first: string | undefined): Promise<void> {
    const { warehouse, telemetry } = this.#options;
    const { log } = telemetry;
    let waits = first;
    for (let tries = 1; waits !== undefined && !this.stopping; tries += 1) {
      const reason = waits;
      this.#migrationLog.line(() =>
        log.warn({ reason }, `the migration of the warehouse waits, and events land without it: ${reason}`),
      );
      await this.#pause(tries, MIGRATION_PAUSE_FIRST_MS, MIGRATION_PAUSE_MAX_MS);
      waits = await warehouse.prepare().catch(messageOf);
      if (waits === undefined) log.info('the warehouse has been migrated');
    }
  }

  async #takeIn(): Promise<void> {
    const underWay = new Set<Promise<void>>();
    while (!this.stopping) {
      if (!this.#joined) {
        await Promise.all(underWay);
        await this.#step('queue', () => this.#join());
        continue;
      }
      const max = await this.#intake.reserve();
      const read = this.#read(max).finally(() => underWay.delete(read));
      underWay.add(read);
      if (!this.#backlog) await read;
      else if (underWay.size === READS_AT_ONCE) await Promise.race(underWay);
    }
    await Promise.all(underWay);
    this.#intake.end();
  }

  async #read(max: number): Promise<void> {
    const waitMs = this.#backlog ? 0 : READ_WAIT_MS;
    const deliveries: readonly Delivery[] =
      (await this.#step('queue', () => this.#options.reader.read(max, CLAIM_IDLE_MS, waitMs))) ?? [];
    this.#backlog = deliveries.length >= Math.min(max, BACKLOG_ENTRIES);
    const { schemas, telemetry } = this.#options;
    const batch = classify(deliveries, schemas, telemetry.metrics.schemaEvents);
    this.#intake.add(batch, max, this.#backlog);
  }

  async #land(): Promise<void> {
    for (;;) {
      const batch = await this.#intake.take();
      if (batch === undefined) return;
      await this.#finish(batch);
    }
  }

  async #finish(batch: readonly Entered[]): Promise<void> {
    const { reader, limits } = this.#options;
    for (let left = batch; left.length > 0;) {
      const now = left;
      const some = await this.#step('warehouse', () => limits.slots.use(() => this.#landing.landSome(now)));
      if (some === undefined) break;
      await this.#step('queue', () => reader.acknowledge(some.done));
      left = some.left;
    }
  }

  /** Joins the group once there is a place among its consumers. */
  async #join(): Promise<void> {
    const { reader, telemetry, clock } = this.#options;
    if (!(await this.#takePlace())) return clock.sleep(PLACE_INTERVAL_MS, this.#stop.signal);
    const made = await reader.join();
    this.#joined = true;
    if (made) telemetry.log.warn('made the consumer group, from the beginning of the queue');
  }

  async #takePlace(): Promise<boolean> {
    const { reader, limits, telemetry } = this.#options;
    const { replicasMax } = limits;
    const { log } = telemetry;
    const wasFull = this.#full;
    this.#placed ||= await reader.register(replicasMax);
    this.#full = !this.#placed;
    if (this.#full && !wasFull)
      log.warn({ replicasMax }, 'the stream is not read: INGEST_CONSUMER_REPLICAS_MAX other consumers read it');
    if (wasFull && !this.#full) log.info('a place is free: the stream is read');
    return this.#placed;
  }

  /**
   * Tries `work` until it succeeds. Gives undefined when the group vanished, which is no matter of trying again, or
   * when `work` failed and a stop was asked for.
   */
  async #step<T>(needs: Dependency, work: () => Promise<T>): Promise<T | undefined> {
    for (let failures = 1; ; failures += 1) {
      try {
        const result = await work();
        this.#succeeded(needs);
        return result;
      } catch (cause) {
        if (cause instanceof TablesDiffer) throw cause;
        const failing = cause instanceof QueueStepFailed ? 'queue' : needs;
        this.#failed(failing, cause);
        if (this.stopping) return undefined;
        await this.#pause(failures, PAUSE_FIRST_MS, PAUSE_MAX_MS[failing]);
        if (cause instanceof GroupVanished || this.stopping) return undefined;
      }
    }
  }

  /** Ends with a stop at the latest. */
  #pause(failures: number, firstMs: number, maxMs: number): Promise<void> {
    const { clock, random } = this.#options;
    return clock.sleep(pauseMs(failures, firstMs, maxMs, random.fraction()), this.#stop.signal);
  }

  #succeeded(needs: Dependency): void {
    if (!this.#troubles.delete(needs)) return;
    const { log } = this.#options.telemetry;
    if (this.#loggedAway.delete(needs)) log.info(`the ${needs} is back`);
    if (this.#troubles.size === 0) log.info('events are landing');
  }

  #failed(needs: Dependency, cause: unknown): void {
    const { metrics, log } = this.#options.telemetry;
    const reason = messageOf(cause);
    metrics.failures.counter({ dependency: needs }).add();
    const what = cause instanceof WarehouseMisconfigured ? 'cannot work as configured' : 'is unavailable';
    const trouble = `the ${needs} ${what}`;
    this.#troubles.set(needs, `${trouble}: ${reason}`);
    this.#intake.settle();
    if (needs === 'queue') this.#intake.slow();
    if (cause instanceof GroupVanished) {
      this.#joined = false;
      metrics.groupVanished.add();
      log.error('the stream or its consumer group is gone; making it again from the beginning of the queue');
      return;
    }
    this.#failureLog.line((heldBack) => {
      this.#loggedAway.add(needs);
      log.error({ reason, heldBack }, `${trouble}; trying again until it works`);
    });
  }
}
