// `prune --older-than T`: deletes rows that landed, or entered the quarantine, before a given time.
//
// An event must not land a second time, so a row is deleted only if it is older than PRUNE_AGE_MS_MIN and older than
// the oldest unlanded event. Ages are measured by the earliest of three clocks: this machine's, the queue's and the
// warehouse's.
import { QueueFailed } from '../ingest/queue-admin.ts';
import { PRUNE_AGE_MS_MIN, type PruneCursor, type Pruning } from '../ingest/warehouse.ts';
import { audited, printResult, type Session } from './session.ts';
import { queueStatus } from './status.ts';
import { counted, durationText, timeText } from './terminal.ts';

/** Number of rows per statement, and the pause after it, in which other writers can proceed. */
const PAGE = 1_000;
const PAUSE_MS = 10;

/** Margin between a row and the oldest unlanded event, because an event lands later than it is accepted. */
const CLOCK_MARGIN_MS = 60 * 60 * 1000;
const CLOCKS_DIFFER_MS_MAX = 60 * 1000;

export async function pruneRows(session: Session, { table, beforeMs: asked, type }: Pruning): Promise<boolean> {
  const { warehouse, clock, stopped, tell, progress } = session;
  // The clocks are read before the ages, because the queue may answer late.
  const nowMs = await earliestClock(session);
  if (nowMs === undefined) return false;
  const { partitions, away } = await queueStatus(session.queue);
  if (away.length > 0) throw new QueueFailed(away.join('; '));
  const oldest = Math.max(0, ...partitions.map(({ oldestUnlandedMs }) => oldestUnlandedMs));
  const beforeMs = Math.min(asked, nowMs - Math.max(PRUNE_AGE_MS_MIN, oldest + CLOCK_MARGIN_MS));
  const before = timeText(beforeMs);
  if (beforeMs < asked) tell(`an unlanded event on the queue is older: only rows before ${before} are removed`);
  const rows = `${table === 'events' ? 'event' : 'quarantine row'}s${type === undefined ? '' : ` of type ${type}`}`;
  const what = `${rows} from before ${before}`;
  if (!(await session.confirm(`Remove all ${what}, for good?`))) return false;
  return audited(session, 'prune', what, async (tally) => {
    let from: PruneCursor | undefined;
    do {
      const { removed, next } = await warehouse.prune({ table, beforeMs, type }, from, PAGE);
      tally.changed += removed;
      progress(`pruning: ${counted(tally.changed, 'row')} removed`);
      from = next;
      if (from !== undefined) await clock.sleep(PAUSE_MS, stopped);
    } while (from !== undefined && !stopped.aborted);
    progress('');
    const removed = counted(tally.changed, 'row');
    printResult(session, { removed: tally.changed, before }, `removed ${removed} from before ${before}\n`);
    if (from !== undefined) tell('interrupted; run again for the rest');
    return from === undefined;
  });
}

/** Returns Unix time in milliseconds. If the clocks differ too much, prints a message and returns `undefined`. */
async function earliestClock({ clock, queue, warehouse, tell }: Session): Promise<number | undefined> {
  const hereMs = clock.epochMs();
  // Both answer within seconds, which the limit allows for.
  const queueMs = await Promise.all(queue.streams.map((stream) => stream.clock()));
  const warehouseMs = (await warehouse.clock()) ?? hereMs;
  const all = [hereMs, ...queueMs, warehouseMs];
  const earliest = Math.min(...all);
  const differMs = Math.max(...all) - earliest;
  if (differMs <= CLOCKS_DIFFER_MS_MAX) return earliest;
  tell(
    `nothing was removed: the clocks differ by ${durationText(differMs)} (this machine's ${timeText(hereMs)}, ` +
      `the queue's ${queueMs.map(timeText).join(', ')}, the warehouse's ${timeText(warehouseMs)}); ` +
      'set the clock that is wrong, then run again',
  );
  return undefined;
}
