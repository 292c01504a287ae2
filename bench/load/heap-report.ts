// Preloaded into a measured program: answers each message on its IPC channel with the work of V8's heap so far.
import { constants, PerformanceObserver } from 'node:perf_hooks';
import { getHeapStatistics } from 'node:v8';

export interface HeapReport {
  readonly allocatedBytes: number;
  /** Collections of young objects, and of all objects. */
  readonly youngCollections: number;
  readonly fullCollections: number;
}

const collections = new Map<unknown, number>();
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    const { kind } = (entry as PerformanceEntry & { readonly detail: { readonly kind: number } }).detail;
    collections.set(kind, (collections.get(kind) ?? 0) + 1);
  }
}).observe({ entryTypes: ['gc'] });

process.on('message', () => {
  const report: HeapReport = {
    allocatedBytes: getHeapStatistics().total_allocated_bytes,
    youngCollections: collections.get(constants.NODE_PERFORMANCE_GC_MINOR) ?? 0,
    fullCollections: collections.get(constants.NODE_PERFORMANCE_GC_MAJOR) ?? 0,
  };
  process.send?.(report);
});
process.channel?.unref();
