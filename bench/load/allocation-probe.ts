// Loaded into a server by NODE_OPTIONS=--import: counts what it allocates on V8's heap and how often that is collected.
//
// The first SIGUSR2 begins, the second ends and writes {bytes, collections} as JSON to the file that
// BENCH_ALLOCATION_FILE names. Allocated is what the heap grew by between collections, all added up; buffers outside of
// the heap are not in it.
import { writeFileSync } from 'node:fs';
import { getHeapStatistics, GCProfiler } from 'node:v8';

let profiler: GCProfiler | undefined;
let usedAtBegin = 0;

function toggle(): void {
  const used = getHeapStatistics().used_heap_size;
  if (profiler === undefined) {
    profiler = new GCProfiler();
    usedAtBegin = used;
    profiler.start();
    return;
  }
  const collections = profiler.stop()?.statistics ?? [];
  profiler = undefined;
  let bytes = 0;
  let last = usedAtBegin;
  for (const { beforeGC, afterGC } of collections) {
    bytes += Math.max(0, beforeGC.heapStatistics.usedHeapSize - last);
    last = afterGC.heapStatistics.usedHeapSize;
  }
  bytes += Math.max(0, used - last);
  const file = process.env['BENCH_ALLOCATION_FILE'];
  if (file !== undefined) writeFileSync(file, JSON.stringify({ bytes, collections: collections.length }));
}

process.on('SIGUSR2', toggle);
