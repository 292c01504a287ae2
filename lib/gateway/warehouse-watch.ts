// Look-ups need the warehouse, accepting does not: a gateway starts without it, and its log says so.
import { WarehouseMisconfigured, type Warehouse } from '../ingest/warehouse.ts';
import type { Clock } from '../process/clock.ts';
import type { Log } from '../process/log.ts';
import { messageOf } from '../process/message-of.ts';

/** Between looks at a warehouse that was away at the start. */
const LOOK_MS = 1_000;

/**
 * Asks the warehouse until it answers, or the gateway drains. Logs that it is unavailable, once, and that it is back.
 */
export async function warnOfWarehouse(
  warehouse: Pick<Warehouse, 'probe'>,
  draining: () => boolean,
  log: Log,
  clock: Clock,
): Promise<void> {
  for (let wasAway = false; !draining(); wasAway = true) {
    try {
      await warehouse.probe();
      if (wasAway) log.info('the warehouse is back');
      return;
    } catch (cause) {
      const what = cause instanceof WarehouseMisconfigured ? 'cannot work as configured' : 'is unavailable';
      if (!wasAway) log.warn({ reason: messageOf(cause) }, `the warehouse ${what}: look-ups fail`);
    }
    await clock.sleep(LOOK_MS);
  }
}
