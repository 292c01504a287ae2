// Removes rows that are older than the retention of the warehouse, while this replica has nothing else to do.
//
// A round each minute looks for old rows; replicas begin at random, so that they seldom do it at the same time. Small
// batches, each followed by a pause of several times its own duration: landing, look-ups and other sessions come first.
//
// Invariant: a row is removed only where its event cannot land a second time. The queue answers in all its parts and
// nothing on it has waited for long, and the shortest retention is longer than the queue knows an id.
import type { PruneCursor, Pruning, Warehouse } from '../ingest/warehouse.ts';
import { PRUNE_AGE_MS_MIN } from '../ingest/warehouse.ts';
import type { ClockAndRandom } from '../process/clock.ts';
import { Throttled, type Log } from '../process/log.ts';
import { messageOf } from '../process/message-of.ts';
import type { CounterFamily } from '../telemetry/instruments.ts';

const ROUND_MS = 60_000;
const BATCH_ROWS = 500;
const PAUSE_MIN_MS = 50;
/** Of the time that a batch took. */
const PAUSE_SHARE = 4;
/** No round begins, and one that has begun ends, while the oldest event that has not landed is older. */
const BEHIND_S = 30;
const FAILURE_LOG_INTERVAL_MS = 600_000;

export interface PrunerOptions extends ClockAndRandom {
  readonly warehouse: Pick<Warehouse, 'prune'>;
  /** What is removed at which age, in milliseconds; undefined: never. */
  readonly retentionMs: Readonly<Record<Pruning['table'], number | undefined>>;
  /** No event that has not landed is older, in seconds; undefined while that is not known of the whole queue. */
  readonly oldestSeconds: () => number | undefined;
  readonly pruned: CounterFamily;
  readonly log: Log;
}

export class Pruner {
  readonly #options: PrunerOptions;
  readonly #failureLog: Throttled;

  constructor(options: PrunerOptions) {
    this.#options = options;
    this.#failureLog = new Throttled(options.clock, FAILURE_LOG_INTERVAL_MS);
  }

  /** Ends, after the batch under way, when `stopped` aborts. Rejects never. */
  async run(stopped: AbortSignal): Promise<void> {
    const { clock, random, retentionMs } = this.#options;
    const kept = (['events', 'quarantine'] as const).filter((table) => retentionMs[table] !== undefined);
    while (kept.length > 0 && !stopped.aborted) {
      await clock.sleep((ROUND_MS * (1 + random.fraction())) / 2, stopped);
      for (const table of kept) await this.#round(table, retentionMs[table] ?? Number.POSITIVE_INFINITY, stopped);
    }
  }

  async #round(table: Pruning['table'], retentionMs: number, stopped: AbortSignal): Promise<void> {
    const { clock, warehouse, pruned, log } = this.#options;
    const beforeMs = clock.epochMs() - Math.max(retentionMs, PRUNE_AGE_MS_MIN);
    let from: PruneCursor | undefined;
    let rows = 0;
    try {
      while (!stopped.aborted && (this.#options.oldestSeconds() ?? Number.POSITIVE_INFINITY) < BEHIND_S) {
        const startedMs = clock.ms();
        const { removed, next } = await warehouse.prune({ table, beforeMs }, from, BATCH_ROWS);
        rows += removed;
        pruned.counter({ table }).add(removed);
        if (next === undefined) break;
        from = next;
        await clock.sleep(Math.max(PAUSE_MIN_MS, PAUSE_SHARE * (clock.ms() - startedMs)), stopped);
      }
    } catch (cause) {
      const reason = messageOf(cause);
      this.#failureLog.line(() => log.warn({ reason, table }, 'old rows of the warehouse could not be removed'));
    }
    if (rows > 0)
      log.info({ table, rows, before: new Date(beforeMs).toISOString() }, 'removed old rows of the warehouse');
  }
}
