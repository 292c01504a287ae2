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

export class Erasures {
  readonly #session: Session;
  /** The times of erasures that an entry of the queue may precede. */
  readonly #atMs = new Map<string, number>();
  readonly #dropped = new Set<string>();
  #droppedFrom: number | PruneCursor = 0;

  constructor(session: Session) {
    this.#session = session;
  }

  /**
   * Reads all recorded erasures, and keeps those since `sinceMs`. Returns the number of events whose bodies are in the
   * warehouse again, after erasing these if `again`.
   */
  async read(sinceMs: number, again: boolean): Promise<number> {
    let back = 0;
    this.#droppedFrom = sinceMs - CLOCK_MARGIN_MS;
    for await (const notes of notesOf(this.#session)) {
      for (const { id, atMs } of notes)
        if (atMs >= sinceMs) this.#atMs.set(id, Math.max(atMs, this.#atMs.get(id) ?? 0));
      for (const page of pages(notes, PAGE)) {
        const ids = await bodiesBack(this.#session.warehouse, page);
        back += ids.length;
        if (again) await eraseAgain(this.#session, ids);
      }
    }
    return back;
  }

  /** True if the event of an entry was erased after it was accepted. */
  has({ id, acceptedAtMs }: QueuedCopy): boolean {
    return acceptedAtMs <= (this.#atMs.get(id ?? '') ?? -1);
  }

  /** Returns the names of quarantine rows that operators dropped, up to now. */
  async dropped(): Promise<ReadonlySet<string>> {
    for (let from: number | PruneCursor | undefined = this.#droppedFrom; from !== undefined;) {
      this.#droppedFrom = from;
      const { page, next } = await this.#session.warehouse.removals('dropped', from);
      for (const { names } of page) for (const name of names) this.#dropped.add(name);
      from = next;
    }
    return this.#dropped;
  }
}

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
