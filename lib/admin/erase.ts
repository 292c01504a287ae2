// `erase`: overwrites events in the queue, the warehouse and the quarantine, so that only id and type remain.
//
// The ids are recorded in the warehouse and on the queue before anything is searched (erasures.ts), also for consumers
// that hold the events. For each entry on the queue, the erased row is inserted into the warehouse, so that a frozen consumer finds
// the id in use, and the entry is replaced in one atomic step (lib/redis/stream/lua/erase.lua). Finally, the row and
// the quarantine rows are overwritten, because consumers may have written them meanwhile. Each step is repeatable, so
// an interrupted command can be run again. A consumer that commits a quarantine row after that replaces it when it
// finds the note; if it is killed first, erasing again clears the row. The runbook lists copies that are not erased.
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { erasedBody, isErased, namesIn } from '../ingest/erased.ts';
import { isEventId, parseEvent } from '../ingest/event.ts';
import { streamOf, type QueueAdmin, type QueuedCopy, type QueuedStream } from '../ingest/queue-admin.ts';
import { quarantineRowName } from '../ingest/warehouse.ts';
import { auditLines } from '../ingest/warehouse-admin.ts';
import { printable } from '../process/printable.ts';
import { audited, UsageError, RESULT, printResult, type Result, type Session, type Tally } from './session.ts';
import { counted, countText } from './terminal.ts';

/** Time limit for a consumer that holds an entry. Another consumer needs less time to claim the entry. */
const HELD_MS = 30_000;
const POLL_MS = 100;
/** Maximum number of ids in one row of the audit table. */
const RECORDED_IDS = 1_000;

export interface Found {
  readonly stream: QueuedStream;
  readonly copy: QueuedCopy;
}

/** `state` covers rows and entries; `copies` are the entries that are not erased yet. */
interface Seen {
  readonly state: 'unknown' | 'erased' | 'left';
  readonly copies: readonly Found[];
}

/** Numbers of entries, rows and events. */
interface Erased {
  queue: number;
  warehouse: number;
  quarantine: number;
  /** Entries that a consumer still holds. */
  held: number;
  already: number;
  readonly unknown: string[];
}

export async function eraseEvents(session: Session, ids: readonly string[]): Promise<Result> {
  const [id = ''] = ids;
  const what = ids.length === 1 ? `"${printable(id)}"` : counted(ids.length, 'event');
  if (!(await session.confirm(`Erase ${what} for good?`))) return RESULT.nothing;
  return eraseAll(session, ids);
}

async function eraseAll(session: Session, ids: readonly string[]): Promise<Result> {
  const sum: Erased = { queue: 0, warehouse: 0, quarantine: 0, held: 0, already: 0, unknown: [] };
  let looked = 0;
  const erasePage = async (page: readonly string[], tally: Tally): Promise<Result> => {
    for (const id of page) {
      if (session.stopped.aborted) break;
      if (await eraseOne(session, id, sum)) tally.changed += 1;
      looked += 1;
      session.progress(`erasing: ${countText(looked)} of ${counted(ids.length, 'event')}`);
    }
    return RESULT.done;
  };
  for (let from = 0; from < ids.length && !session.stopped.aborted; from += RECORDED_IDS) {
    const page = ids.slice(from, from + RECORDED_IDS);
    await audited(session, 'erase', auditLines(page), (tally) => erasePage(page, tally));
  }
  session.progress('');
  printResult(
    session,
    sum,
    `erased: ${counted(sum.queue, 'entry', 'entries')} on the queue, ` +
      `${counted(sum.warehouse, 'row')} in the warehouse, ${counted(sum.quarantine, 'row')} in the quarantine\n`,
  );
  return resultOf(session, sum, looked < ids.length);
}

/** Records the erasure on every stream, because replays may be on any of them. */
export const noteErasure = ({ queue }: Session, id: string): Promise<unknown> =>
  Promise.all(queue.streams.map((stream) => stream.noteErasure(id)));

async function resultOf(session: Session, sum: Erased, interrupted: boolean): Promise<Result> {
  const { held, already, unknown } = sum;
  if (already > 0) session.tell(`${counted(already, 'event')} already erased`);
  for (const id of unknown) session.tell(`no event with the id ${printable(id)} was found`);
  if (held > 0)
    session.tell(`not done: a consumer holds ${counted(held, 'entry', 'entries')}; run again after it has landed them`);
  if (interrupted) session.tell('interrupted; run again for the rest');
  const rest = await session.warehouse.eraseTraces();
  if (rest !== undefined) session.tell(rest);
  return held + unknown.length === 0 && !interrupted ? RESULT.done : RESULT.nothing;
}

async function seen({ queue, warehouse }: Session, id: string): Promise<Seen> {
  const [landed, quarantined] = await Promise.all([warehouse.landed(id), warehouse.quarantineOf(id)]);
  const rows = quarantined.map(({ entry }) => entry);
  const copies = await copiesOf(queue, id, rows);
  const found = [...copies.map(({ copy }) => copy), ...quarantined, ...(landed === undefined ? [] : [landed])];
  const isLeft = ({ body }: { readonly body: Buffer | string }): boolean => !isErased(body);
  const state = found.length === 0 ? 'unknown' : found.some(isLeft) ? 'left' : 'erased';
  return { state, copies: copies.filter(({ copy }) => isLeft(copy)) };
}

/**
 * Returns the entries of an event that can be found without reading the whole queue: the one that the id index names,
 * those of the quarantine rows `rows`, and replays. They may be on any stream, so this rejects if one is unavailable.
 */
async function copiesOf(queue: QueueAdmin, id: string, rows: readonly string[]): Promise<readonly Found[]> {
  const indexed = streamOf(queue, id);
  const first = [(await indexed.find(id)) ?? []].flat();
  // The entry's own row may have been released, but its replay is still on the queue.
  const own = first.map((copy) => quarantineRowName({ ...copy, producer: copy.producer ?? '' }));
  const names = [...new Set([...rows, ...own])];
  const noted = await Promise.all(
    queue.streams.map(async (stream) => (await stream.noted(id, names)).map((copy) => ({ stream, copy }))),
  );
  const found = [...first.map((copy) => ({ stream: indexed, copy })), ...noted.flat()];
  return [...new Map(found.map((one) => [`${one.copy.source}/${one.copy.entry}`, one])).values()];
}

/** Returns false if there was nothing to erase. */
async function eraseOne(session: Session, id: string, sum: Erased): Promise<boolean> {
  await noteErasure(session, id);
  const { state, copies } = await seen(session, id);
  if (state === 'unknown') sum.unknown.push(id);
  if (state === 'erased') sum.already += 1;
  if (state !== 'left') return false;
  for (const found of copies) sum[(await eraseEntry(session, found, id)) ? 'queue' : 'held'] += 1;
  const rows = await eraseRows(session, id);
  sum.warehouse += rows.warehouse;
  sum.quarantine += rows.quarantine;
  return true;
}

/** Returns false if a consumer still holds the entry. */
export async function eraseEntry(session: Session, { stream, copy }: Found, id: string): Promise<boolean> {
  await land(session, id, copy);
  return eraseCopy(session, stream, copy, id, erasedBody(id, namesIn(copy.body).type));
}

export async function eraseRows({ warehouse }: Session, id: string): Promise<Pick<Erased, 'warehouse' | 'quarantine'>> {
  const landed = await warehouse.landed(id);
  if (landed !== undefined) await warehouse.overwriteLanded(id, erasedBody(id, landed.type));
  const quarantined = await warehouse.quarantineOf(id);
  for (const { entry, body } of quarantined)
    if (!isErased(body)) await warehouse.overwriteQuarantined(entry, erasedBody(id, namesIn(body).type));
  return { warehouse: landed === undefined ? 0 : 1, quarantine: quarantined.length };
}

/** Inserts the erased row of an event that may not have landed yet. Skips invalid events, which never land. */
async function land({ warehouse }: Session, id: string, { producer, body, acceptedAtMs }: QueuedCopy): Promise<void> {
  const event = parseEvent(body);
  if (!event.valid || producer === undefined || producer.includes('\0')) return;
  const erased = Buffer.from(erasedBody(id, event.type));
  await warehouse.land({ id, type: event.type, producer, body: erased, acceptedAtMs });
}

/** Returns false if a consumer still holds the entry after HELD_MS. */
async function eraseCopy(
  { stopped, clock }: Session,
  stream: QueuedStream,
  copy: QueuedCopy,
  id: string,
  body: string,
): Promise<boolean> {
  const deadline = clock.ms() + HELD_MS;
  for (;;) {
    if ((await stream.erase(copy, id, body)) !== 'held') return true;
    if (stopped.aborted || clock.ms() > deadline) return false;
    await clock.sleep(POLL_MS, stopped);
  }
}

/** Reads ids, one on each line; `-` is standard input. Rejects with a UsageError that names the first invalid line. */
export async function idsOf(file: string): Promise<readonly string[]> {
  const input = file === '-' ? process.stdin : createReadStream(file);
  const ids = new Set<string>();
  let number = 0;
  try {
    for await (const text of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
      number += 1;
      const line = number === 1 ? text.replace(/^\uFEFF/, '') : text;
      if (line === '') continue;
      if (!isEventId(line)) throw new UsageError(`${file}, line ${number}: invalid event id`);
      ids.add(line);
    }
  } catch (cause) {
    if (cause instanceof UsageError || !(cause instanceof Error && 'code' in cause)) throw cause;
    throw new UsageError(`${file}: expected a readable file (${String(cause.code)})`, { cause });
  } finally {
    input.destroy();
  }
  if (ids.size === 0) throw new UsageError(`${file}: expected one event id on each line`);
  return [...ids];
}
