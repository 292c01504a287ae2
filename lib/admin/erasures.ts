// The record of erasures, and of dropped quarantine rows, that outlives the loss of the queue or of the warehouse.
//
// `erase` records each id in both: as a note on every stream, for ERASURE_MS (trim.lua), and as a row of
// `ingest_audit`. After one of them was restored, the other one still has the id, and `reconcile` finds bodies that
// came back. An event is erased only if it was accepted before its erasure: an id whose row was pruned is free again.
import { isErased } from '../ingest/erased.ts';
import { QueueFailed, type ErasureNote, type QueuedCopy } from '../ingest/queue-admin.ts';
import { auditLines, type WarehouseAdmin } from '../ingest/warehouse-admin.ts';
import type { PruneCursor } from '../ingest/warehouse.ts';
import { eraseEntry, eraseRows, noteErasure } from './erase.ts';
import { audited, pages, type Session } from './session.ts';

/** The clock of the machine that recorded an erasure may be this much behind the queue's. */
const CLOCK_MARGIN_MS = 60_000;
const PAGE = 500;

/**
 * Reads all recorded erasures, and keeps those since `sinceMs`. Counts the events whose bodies are in the warehouse
 * again, and erases these if `again`.
 */
export async function recordedErasures(session: Session, sinceMs: number, again: boolean) {
  /** The times of erasures that an entry of the queue may precede. */
  const erasedMs = new Map<string, number>();
  const droppedRows = new Set<string>();
  let droppedFrom: number | PruneCursor = sinceMs - CLOCK_MARGIN_MS;
  let back = 0;
  for await (const notes of notesOf(session)) {
    for (const { id, atMs } of notes) if (atMs >= sinceMs) erasedMs.set(id, Math.max(atMs, erasedMs.get(id) ?? 0));
    for (const page of pages(notes, PAGE)) {
      const ids = await bodiesBack(session.warehouse, page);
      back += ids.length;
      if (again) await eraseAgain(session, ids);
    }
  }
  return {
    back,
    /** True if the event of an entry was erased after it was accepted. */
    has: ({ id, acceptedAtMs }: QueuedCopy): boolean => acceptedAtMs <= (erasedMs.get(id ?? '') ?? -1),
    /** Returns the names of quarantine rows that operators dropped, up to now. */
    dropped: async (): Promise<ReadonlySet<string>> => {
      for (let from: number | PruneCursor | undefined = droppedFrom; from !== undefined;) {
        droppedFrom = from;
        const { page, next } = await session.warehouse.removals('dropped', from);
        for (const { names } of page) for (const name of names) droppedRows.add(name);
        from = next;
      }
      return droppedRows;
    },
  };
}

export type Erasures = Awaited<ReturnType<typeof recordedErasures>>;

/** Yields the notes of every stream that answers, then the records in the warehouse. */
async function* notesOf({ queue, warehouse }: Session): AsyncGenerator<readonly ErasureNote[]> {
  for (const stream of queue.streams)
    for (let from = 0, size = 1; size > 0; from += size) {
      const notes = await stream.erasures(from).catch((cause: unknown) => {
        if (cause instanceof QueueFailed) return [];
        throw cause;
      });
      size = notes.length;
      yield notes;
    }
  for (let from: number | PruneCursor | undefined = 0; from !== undefined;) {
    const { page, next } = await warehouse.removals('erase', from);
    yield page.flatMap(({ names, atMs }) => names.map((id) => ({ id, atMs: atMs + CLOCK_MARGIN_MS })));
    from = next;
  }
}

/** Returns the ids that have a body in the warehouse from before the erasure. */
async function bodiesBack(warehouse: WarehouseAdmin, notes: readonly ErasureNote[]): Promise<readonly string[]> {
  const atMs = new Map(notes.map((note) => [note.id, note.atMs]));
  const isBefore = (id: string, acceptedAtMs: number): boolean => acceptedAtMs <= (atMs.get(id) ?? -1);
  const ids = [...atMs.keys()];
  const rows = (await warehouse.rowsOf(ids)).filter((row) => !row.erased && isBefore(row.id, row.acceptedAtMs));
  const back = new Set(rows.map(({ id }) => id));
  for (const id of await warehouse.quarantinedIds(ids)) {
    const quarantined = await warehouse.quarantineOf(id);
    if (quarantined.some((row) => !isErased(row.body) && isBefore(id, row.acceptedAtMs))) back.add(id);
  }
  return [...back];
}

/** Erases events whose bodies are back, on the queue and in the warehouse, and records the erasures again. */
export async function eraseAgain(
  session: Session,
  ids: readonly string[],
  copies: readonly QueuedCopy[] = [],
): Promise<void> {
  if (ids.length === 0) return;
  await audited(session, 'erase', auditLines(ids), async (tally) => {
    for (const id of ids) {
      await noteErasure(session, id);
      for (const copy of copies) if (copy.id === id) await eraseEntry(session, copy, id);
      await eraseRows(session, id);
      tally.changed += 1;
    }
  });
}
