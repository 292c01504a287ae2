import { partitionOf } from '../../lib/ingest/partition.ts';

/** Returns the first `count` ids that belong to queue 0 (`ingest-a`) or queue 1 (`ingest-b`). */
export function idsOf(queue: 0 | 1, prefix: string, count: number): string[] {
  const ids: string[] = [];
  for (let at = 0; ids.length < count; at += 1)
    if (partitionOf(`${prefix}-${at}`, 2) === queue) ids.push(`${prefix}-${at}`);
  return ids;
}
