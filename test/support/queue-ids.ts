// Ids by the queue, of two, that they go to.
import { partitionOf } from '../../lib/ingest/partition.ts';

/** The first `count` ids with this prefix that go to one queue: 0 is `ingest-a`, 1 is `ingest-b`. */
export function idsOf(queue: 0 | 1, prefix: string, count: number): string[] {
  const ids: string[] = [];
  for (let at = 0; ids.length < count; at += 1)
    if (partitionOf(`${prefix}-${at}`, 2) === queue) ids.push(`${prefix}-${at}`);
  return ids;
}
