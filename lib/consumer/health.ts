// Checks every second for problems that the consumer's loops do not notice: an unavailable warehouse while there is
// nothing to land, a queue that is nearly full, and a clock that differs from the queue's.
import { WarehouseMisconfigured, type Warehouse } from '../ingest/warehouse.ts';
import type { Clock, Timer } from '../process/clock.ts';
import { throttled } from '../process/log.ts';
import { messageOf } from '../process/message-of.ts';
import { shared } from '../process/share-call.ts';
import type { Telemetry } from './landing.ts';

const WARNING_SHARE = 0.8;
const CLOCK_SKEW_S_MAX = 60;
const INTERVAL_MS = 1_000;
/** While events land, only every fifth call probes: a probe costs as much as two landings. */
const LANDING_CALLS = 5;
const REPEAT_INTERVAL_MS = 60_000;
/** A warehouse whose probe takes longer than this is unavailable. Landing a batch may take longer. */
const WAREHOUSE_ANSWER_MS = 4_000;

type WatchOptions = Readonly<{ clock: Clock; telemetry: Telemetry; warehouse: Pick<Warehouse, 'probe'> }>;

export function watchOf({ clock, telemetry: { metrics, log }, warehouse }: WatchOptions) {
  const sizeWarning = throttled(clock, REPEAT_INTERVAL_MS);
  const clockWarning = throttled(clock, REPEAT_INTERVAL_MS);
  let warehouseTrouble: string | undefined;
  let timer: Timer | undefined;
  let probing = Promise.resolve();

  function warn(): void {
    const { clockSkewSeconds: skewS, size } = metrics.queue;
    const text = `the clock differs from the queue's by ${Math.round(skewS)} s: set the clock that is wrong`;
    if (skewS > CLOCK_SKEW_S_MAX) clockWarning(() => log.warn({ skewS }, text));
    const { memoryBytes = 0, memoryLimitBytes = 0, events } = size ?? {};
    if (memoryLimitBytes === 0 || memoryBytes < WARNING_SHARE * memoryLimitBytes) return;
    const percent = Math.round((100 * memoryBytes) / memoryLimitBytes);
    const full = 'the queue is nearly full: at its limit it refuses events, until landed ones leave it after 24 hours';
    sizeWarning(() => log.warn({ events, memoryBytes, memoryLimitBytes, percent }, full));
  }

  const probe = shared(async () => {
    const { value: landedBefore } = metrics.landed;
    const silent = clock.after(WAREHOUSE_ANSWER_MS, () => {
      if (metrics.landed.value === landedBefore) warehouseTrouble = 'the warehouse is unavailable: it does not answer';
    });
    try {
      await warehouse.probe();
      warehouseTrouble = undefined;
    } catch (cause) {
      warehouseTrouble = `${troubleOf('warehouse', cause)}: ${messageOf(cause)}`;
    } finally {
      silent.close();
    }
  });

  return {
    /** Why the last probe failed; `undefined` if it succeeded. */
    get warehouseTrouble(): string | undefined {
      return warehouseTrouble;
    },

    /** Probes of the warehouse fail before its tables are ready. */
    start(isPrepared: () => boolean): void {
      let [landedBefore, calls] = [0, 0];
      timer ??= clock.every(INTERVAL_MS, () => {
        warn();
        const { value: landed } = metrics.landed;
        // Events that landed meanwhile show that the warehouse answers, but not that it has its key and tables.
        calls = landed > landedBefore ? calls + 1 : 0;
        const isDue = calls % LANDING_CALLS === 0 || warehouseTrouble !== undefined;
        if (isPrepared() && isDue) probing = probe();
        landedBefore = landed;
      });
    },

    async close(): Promise<void> {
      timer?.close();
      await probing;
    },
  };
}

export const troubleOf = (dependency: string, cause: unknown): string =>
  `the ${dependency} ${cause instanceof WarehouseMisconfigured ? 'cannot work as configured' : 'is unavailable'}`;
