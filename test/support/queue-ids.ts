import { partitionOf } from '../../lib/ingest/partition.ts';

/** The first `count` ids that go to queue 0 (`ingest-a`) or 1 (`ingest-b`). */
export function idsOf(queue: 0 | 1, prefix: string, count: number): string[] {
  const ids: string[] = [];
  for (let at = 0; ids.length < count; at += 1)
    if (partitionOf(`${prefix}-${at}`, 2) === queue) ids.push(`${prefix}-${at}`);
  return ids;
}
