// The record of erasures, and of dropped quarantine rows: notes on every stream, for ERASURE_MS (trim.lua), and rows of
// `ingest_audit`. It outlives the loss of the queue or of the warehouse, and `reconcile` finds restored bodies by it.
// An event is erased only if it was accepted before its erasure: an id whose row was pruned is free again.
import { isErased } from '../ingest/erased.ts';
import type { QueuedCopy, QueuedStream } from '../ingest/queue-admin.ts';
import type { WarehouseAdmin } from '../ingest/warehouse-admin.ts';
import { pages } from './session.ts';

/** Earlier versions recorded the time of their machine, which may be this much behind the queue's. */
const CLOCK_MARGIN_MS = 60_000;
const PAGE = 500;

type Window = Readonly<{ stream: QueuedStream; startMs: number }>;

/**
 * Reads all erasures that the streams and the warehouse have recorded, for entries since each `startMs`. Leaves out
 * those that began after `openSinceMs` and have not ended. The notes are read first, because they are written last.
 */
export async function recordedErasures(warehouse: WarehouseAdmin, windows: readonly Window[], openSinceMs: number) {
  const erasedMs = new Map<string, number>();
  const erasing = new Set<string>();
  const add = (id: string, atMs: number): unknown => erasedMs.set(id, Math.max(atMs, erasedMs.get(id) ?? 0));
  for (const { stream } of windows)
    for (let from = 0, size = 1; size > 0; from += size) {
      const notes = await stream.erasures(from);
      for (const { id, atMs } of notes) add(id, atMs);
      size = notes.length;
    }
  for await (const { names, atMs, isOpen } of warehouse.removals('erase', 0))
    for (const id of names) {
      add(id, atMs + CLOCK_MARGIN_MS);
      if (isOpen && atMs > openSinceMs) erasing.add(id);
      else erasing.delete(id);
    }
  for (const id of erasing) erasedMs.delete(id);
  const isBefore = (id: string, acceptedAtMs: number): boolean => acceptedAtMs <= (erasedMs.get(id) ?? -1);
  const droppedRows = new Set<string>();
  let droppedMs = Math.min(...windows.map(({ startMs }) => startMs)) - CLOCK_MARGIN_MS;

  return {
    erasing,
    /** True if the event of an entry was erased after it was accepted. */
    has: ({ id = '', acceptedAtMs }: QueuedCopy): boolean => isBefore(id, acceptedAtMs),
    /** Yields the ids of events that have a body in the warehouse from before their erasure. */
    async *rowsBack(): AsyncGenerator<readonly string[], void> {
      for (const ids of pages([...erasedMs.keys()], PAGE)) {
        const rows = (await warehouse.rowsOf(ids)).filter((row) => !row.erased && isBefore(row.id, row.acceptedAtMs));
        const back = new Set(rows.map(({ id }) => id));
        for (const id of await warehouse.quarantinedIds(ids)) {
          const quarantined = await warehouse.quarantineOf(id);
          if (quarantined.some((row) => !isErased(row.body) && isBefore(id, row.acceptedAtMs))) back.add(id);
        }
        if (back.size > 0) yield [...back];
      }
    },
    /** Returns the names of quarantine rows that operators dropped, up to now. */
    dropped: async (): Promise<ReadonlySet<string>> => {
      for await (const { names, atMs } of warehouse.removals('dropped', droppedMs)) {
        for (const name of names) droppedRows.add(name);
        droppedMs = atMs;
      }
      return droppedRows;
    },
  };
}

export type Erasures = Awaited<ReturnType<typeof recordedErasures>>;
