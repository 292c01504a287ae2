// The consumer of one stream. Its loops run concurrently, and a step that fails is retried after a pause:
//
//   prepare ─▶ take in:  register ─▶ join ─▶ read ─▶ classify ─▶ check schemas, and read …
//          └─▶ land:     land ─▶ acknowledge ─▶ land …       (LANDINGS_AT_ONCE loops)
//
// Invariant: an entry is acknowledged only after its row or its quarantine row is committed. Another replica claims
// an entry that is unacknowledged for CLAIM_IDLE_MS. If both land it, the primary key prevents a second row.
import { GroupVanished, type QueueReader } from '../ingest/queue.ts';
import { TablesDiffer, type Warehouse } from '../ingest/warehouse.ts';
import { pauseMs } from '../process/backoff.ts';
import type { ClockAndRandom } from '../process/clock.ts';
import { throttled, type Throttled } from '../process/log.ts';
import { isStillSilent, messageOf } from '../process/message-of.ts';
import { Intake, READS_AT_ONCE, readEntriesMax } from './read-buffer.ts';
import { CLAIM_IDLE_MS, Landing, LANDINGS_AT_ONCE, QueueStepFailed } from './landing.ts';
import type { LandingSlots, Telemetry } from './landing.ts';
import { classify, isRejection, rejected, type Entered, type EnteredEvent } from './classify.ts';
import type { WatchedSchemas } from './schemas.ts';
import { troubleOf } from './health.ts';

/** In a backlog, a batch has up to this many times `batchMax` entries. */
const BATCHES_AT_ONCE = 8;
/**
 * Fact: a cycle of read, land and acknowledge costs about the same for 50 events as for one. Choice: without a backlog,
 * the first replica reads again READ_INTERVAL_MS after a read that returned events, and the others help it in a backlog
 * or replace it after OTHERS_READ_INTERVAL_MS. A read that waits for its first event returns it immediately. Effect:
 * `BENCH_CASES=whole make bench`.
 */
const READ_INTERVAL_MS = 50;
const OTHERS_READ_INTERVAL_MS = 250;
/** Block time of one read. Shutdown waits for it. */
const READ_WAIT_MS = 1_000;
const PLACE_INTERVAL_MS = 1_000;
const PAUSE_FIRST_MS = 100;
const PAUSE_MAX_MS: Readonly<Record<Dependency, number>> = { queue: 1_000, warehouse: 5_000 };
const FAILURE_LOG_INTERVAL_MS = 10_000;
/** These pauses are longer, because each attempt may block landing and lookups for a moment. */
const MIGRATION_PAUSE_FIRST_MS = 1_000;
const MIGRATION_PAUSE_MAX_MS = 10_000;

const FULL = 'INGEST_CONSUMER_REPLICAS_MAX other consumers read the stream';
const NOT_PREPARED = 'the warehouse is not prepared yet';
const NOT_JOINED = 'the queue is not joined yet';

export type Dependency = 'queue' | 'warehouse';
type Schemas = Pick<WatchedSchemas, 'has' | 'check'>;

export interface ConsumerLimits {
  readonly batchMax: number;
  readonly replicasMax: number;
  /** Number of streams that this process reads. They share the limit on bytes, and the slots. */
  readonly streams: number;
  readonly slots: LandingSlots;
}

export interface ConsumerOptions extends ClockAndRandom {
  readonly reader: QueueReader;
  readonly warehouse: Warehouse;
  readonly telemetry: Telemetry;
  readonly limits: ConsumerLimits;
  readonly schemas?: Schemas | undefined;
}

export class Consumer {
  readonly #options: ConsumerOptions;
  readonly #landing: Landing;
  readonly #intake: Intake;
  readonly #stop = new AbortController();
  readonly #failureLog: Throttled;
  readonly #troubles = new Map<Dependency, string>();
  /** Dependencies whose failure has been logged, but not their recovery. */
  readonly #logged = new Set<Dependency>();
  /** True if the group was missing once. */
  #hasVanished = false;
  /** `full`: does not read, because `replicasMax` others do. */
  #phase: 'preparing' | 'joining' | 'full' | 'reading' = 'preparing';
  /** Ends before the next read. An acknowledgment waits for it, so that both leave in one write. */
  #readingPause = Promise.resolve();
  #endPause = (): void => undefined;
  readonly #checks = new Set<Promise<void>>();

  constructor(options: ConsumerOptions) {
    this.#options = options;
    this.#failureLog = throttled(options.clock, FAILURE_LOG_INTERVAL_MS);
    this.#landing = new Landing(options);
    const { reader, limits } = options;
    const { batchMax, streams } = limits;
    const readMax = (): number => Math.min(batchMax, readEntriesMax(reader.bodyBytesMax, streams));
    this.#intake = new Intake({ wanted: BATCHES_AT_ONCE * batchMax, readMax, streams });
  }

  /** Why no events are landing; `undefined` if they are. */
  get trouble(): string | undefined {
    if (this.full) return FULL;
    const [trouble] = this.#troubles.values();
    if (trouble !== undefined || this.#phase === 'reading') return trouble;
    return this.prepared ? NOT_JOINED : NOT_PREPARED;
  }

  /** True if the last step that needed the dependency succeeded, and the tables are ready. */
  answers(dependency: Dependency): boolean {
    return !this.#troubles.has(dependency) && (dependency === 'queue' || this.prepared);
  }

  get full(): boolean {
    return this.#phase === 'full';
  }

  get prepared(): boolean {
    return this.#phase !== 'preparing';
  }

  get stopping(): boolean {
    return this.#stop.signal.aborted;
  }

  /** Makes `run` finish the batches that it has read, and then resolve. */
  stop(): void {
    this.#stop.abort();
    this.#endPause();
  }

  /** Runs until `stop` is called. Rejects only with TablesDiffer. */
  async run(): Promise<void> {
    const waits = await this.#step('warehouse', () => this.#options.warehouse.prepare());
    if (this.stopping) return;
    this.#phase = 'joining';
    this.#options.telemetry.log.info('the warehouse is ready');
    const landing = Array.from({ length: LANDINGS_AT_ONCE }, () => this.#land());
    await Promise.all([this.#migrateLater(waits), this.#takeIn(), ...landing]);
  }

  /** Retries a migration that has to wait. Meanwhile, events land in the existing tables. */
  async #migrateLater(first: string | undefined): Promise<void> {
    const { warehouse, telemetry, clock } = this.#options;
    const { log } = telemetry;
    const waits = throttled(clock, FAILURE_LOG_INTERVAL_MS);
    for (let [tries, reason] = [1, first]; reason !== undefined && !this.stopping; tries += 1) {
      const text = `the migration of the warehouse waits, and events land without it: ${reason}`;
      waits(() => log.warn({ reason }, text));
      await this.#pause(tries, MIGRATION_PAUSE_FIRST_MS, MIGRATION_PAUSE_MAX_MS);
      reason = await warehouse.prepare().catch(messageOf);
      if (reason === undefined) log.info('the warehouse has been migrated');
    }
  }

  async #takeIn(): Promise<void> {
    const { reader, clock } = this.#options;
    const underWay = new Set<Promise<boolean>>();
    while (!this.stopping) {
      if (this.#phase !== 'reading') {
        await Promise.all(underWay);
        await this.#step('queue', () => this.#join());
        continue;
      }
      const max = await this.#intake.reserve(underWay.size === 0 && !this.#intake.backlog);
      if (this.#intake.backlog) {
        const read = this.#read(max).finally(() => underWay.delete(read));
        if (underWay.add(read).size === READS_AT_ONCE) await Promise.race(underWay);
      } else if ((await this.#read(max)) && !this.#intake.backlog) {
        const pauseMs = reader.isFirst ? READ_INTERVAL_MS : OTHERS_READ_INTERVAL_MS;
        // A sleep with a signal takes 4 % of the CPU time of a cycle.
        await (this.#readingPause = new Promise((resolve) => {
          this.#endPause = resolve;
          clock.after(pauseMs, resolve);
        }));
      }
    }
    await Promise.all(underWay);
    await Promise.all(this.#checks);
    this.#intake.end();
  }

  /** Resolves with true if the read returned entries. */
  async #read(max: number): Promise<boolean> {
    const { reader, schemas, clock } = this.#options;
    const waitMs = this.#intake.backlog ? 0 : READ_WAIT_MS;
    let readMs = 0;
    const read = () => {
      readMs = clock.ms();
      return reader.read(this.#intake.readMax(max), CLAIM_IDLE_MS, waitMs);
    };
    const deliveries = (await this.#step('queue', read)) ?? [];
    if (deliveries.length > 0) this.#options.telemetry.metrics.stalls.arrivedMs();
    const entered = classify(deliveries, readMs);
    if (schemas === undefined) this.#intake.add(entered, max);
    else this.#check(entered, max, schemas);
    return deliveries.length > 0;
  }

  /** The next read does not wait for the checks. */
  #check(entered: readonly Entered[], max: number, schemas: Schemas): void {
    const { matched, unmatched, unschematized } = this.#options.telemetry.metrics.schemaEvents;
    const isChecked = (one: Entered): one is EnteredEvent => !isRejection(one) && schemas.has(one);
    const checked = entered.filter(isChecked);
    const others = entered.filter((one) => !isChecked(one));
    unschematized.add(others.filter((one) => !isRejection(one)).length);
    this.#intake.add(others, max, checked);
    for (const [type, events] of Map.groupBy(checked, (event) => event.type)) {
      const check = schemas.check(type, events).then((problems) => {
        this.#checks.delete(check);
        const judged = events.map((event, at) => {
          const faults = problems[at] ?? [];
          (faults.length === 0 ? matched : unmatched).add();
          return faults.length === 0 ? event : rejected(event, 'schema', faults.join('; '));
        });
        this.#intake.addChecked(judged);
      });
      this.#checks.add(check);
    }
  }

  async #land(): Promise<void> {
    const { reader, limits } = this.#options;
    for (let batch = await this.#intake.take(); batch !== undefined;) {
      const now = batch;
      const some = await this.#step('warehouse', () => limits.slots.use(() => this.#landing.landSome(now)));
      if (some !== undefined) {
        if (some.rest.length === 0) await this.#readingPause;
        await this.#step('queue', () => reader.acknowledge(some.done));
      }
      batch = some?.rest.length ? some.rest : await this.#intake.take();
    }
  }

  async #join(): Promise<void> {
    const { reader, limits, telemetry, clock } = this.#options;
    const { replicasMax } = limits;
    const { log } = telemetry;
    if (!(await reader.register(replicasMax))) {
      if (!this.full)
        log.warn({ replicasMax }, 'the stream is not read: INGEST_CONSUMER_REPLICAS_MAX other consumers read it');
      this.#phase = 'full';
      return clock.sleep(PLACE_INTERVAL_MS, this.#stop.signal);
    }
    if (this.full) log.info('a place is free: reading the stream');
    const made = await reader.join();
    this.#phase = 'reading';
    if (made && !this.#hasVanished) log.info('created the consumer group at the beginning of the queue');
    if (this.#troubles.size === 0) log.info('events are landing');
  }

  /** Retries `work` until it succeeds. Returns `undefined` if the group vanished or `stop` was called. */
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

  #pause(failures: number, firstMs: number, maxMs: number): Promise<void> {
    const { clock, random } = this.#options;
    return clock.sleep(pauseMs(failures, firstMs, maxMs, random.fraction()), this.#stop.signal);
  }

  #succeeded(needs: Dependency): void {
    if (!this.#troubles.delete(needs)) return;
    const { log } = this.#options.telemetry;
    if (this.#logged.delete(needs)) log.info(`the ${needs} is back`);
    if (this.trouble === undefined) log.info('events are landing');
  }

  #failed(needs: Dependency, cause: unknown): void {
    const { metrics, log } = this.#options.telemetry;
    const reason = messageOf(cause);
    metrics.failures.inc({ dependency: needs });
    const trouble = troubleOf(needs, cause);
    if (!isStillSilent(reason, this.#troubles.get(needs))) this.#troubles.set(needs, `${trouble}: ${reason}`);
    this.#intake.settle();
    if (needs === 'queue') this.#intake.slow();
    if (cause instanceof GroupVanished) {
      this.#phase = 'joining';
      this.#hasVanished = true;
      metrics.groupVanished.inc();
      log.error('the stream or its consumer group is missing; creating it again at the beginning of the queue');
      return;
    }
    this.#failureLog((heldBack) => {
      this.#logged.add(needs);
      log.error({ reason, heldBack }, `${trouble}; trying again until it works`);
    });
  }
}
