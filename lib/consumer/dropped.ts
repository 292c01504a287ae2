// What becomes of entries of which only the name is left: the queue dropped them after a replica had taken them.
//
// Invariant: an entry is said to be dropped only where its event has no row. Its holder may have landed it and
// acknowledged it meanwhile; or it died behind the commit and before the acknowledgement, and then its note in the
// queue tells by what id the row is found. An entry without a note was never about to be landed.
import type { NotedEvent, QueueReader } from '../ingest/queue.ts';
import type { Warehouse } from '../ingest/warehouse.ts';
import { entryName, isDropped, type Batch } from './quarantine.ts';

/** Tries until it succeeds; undefined where that makes no sense any more. */
type Step = <T>(needs: 'queue' | 'warehouse', work: () => Promise<T>) => Promise<T | undefined>;

/**
 * The batch without dropped entries whose event has landed, which are acknowledged; undefined where nothing is left of
 * it.
 */
export async function withoutLanded(
  batch: Batch,
  reader: QueueReader,
  warehouse: Warehouse,
  step: Step,
): Promise<Batch | undefined> {
  const dropped = batch.rejections.filter(isDropped);
  if (dropped.length === 0) return batch;
  const open = (await step('queue', () => reader.unacknowledged(dropped))) ?? [];
  const noted = open.length === 0 ? [] : await step('queue', () => reader.noted(open));
  // A step that succeeds counts as an answer of the warehouse, so there is none where it would not be asked.
  const landed =
    noted === undefined || noted.length === 0 ? noted : await step('warehouse', () => withRows(noted, warehouse));
  if (landed !== undefined && landed.length > 0) await step('queue', () => reader.acknowledge(landed));
  const finished = new Set(landed?.map(entryName));
  // If that cannot be found out now, they are not acknowledged and come again.
  const lost = landed === undefined ? [] : open.filter((rejection) => !finished.has(entryName(rejection)));
  const rejections = batch.rejections.filter((rejection) => !isDropped(rejection) || lost.includes(rejection));
  const count = batch.events.length + rejections.length;
  return count === 0 ? undefined : { ...batch, rejections, count };
}

/** Those of some events that have a row. */
async function withRows(events: readonly NotedEvent[], warehouse: Warehouse): Promise<readonly NotedEvent[]> {
  const found = await Promise.all(events.map(({ id, producer }) => warehouse.find(id, producer)));
  if (found.some(({ kind }) => kind === 'unavailable')) throw new Error('the warehouse cannot be asked');
  return events.filter((_, at) => found[at]?.kind === 'landed');
}
