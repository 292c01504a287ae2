// `erase`: overwrites events in the queue, the warehouse and the quarantine, so that only id and type remain.
//
// The ids are recorded in the warehouse and on the queue before the search (erasures.ts), also for consumers that hold
// the events. For each entry, the erased row is inserted into the warehouse, so that a frozen consumer finds the id in
// use, and the entry is replaced in one atomic step (lib/redis/stream/lua/erase.lua). The rows are overwritten last,
// because consumers may have written them meanwhile. A consumer that commits a quarantine row after that replaces it
// when it finds the note. Each step is repeatable. The runbook lists copies that are not erased.
import { constants, createReadStream, openSync, statSync } from 'node:fs';
import { Socket } from 'node:net';
import { addAbortSignal, type Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { erasedBody, isErased, namesIn } from '../ingest/erased.ts';
import { isEventId, parseEvent } from '../ingest/event.ts';
import { streamOf, type QueuedCopy, type QueuedStream } from '../ingest/queue-admin.ts';
import { quarantineRowName } from '../ingest/warehouse.ts';
import { auditLines } from '../ingest/warehouse-admin.ts';
import { errno } from '../process/operator-file.ts';
import { printable } from '../process/printable.ts';
import { audited, eraseTraces, pages, printResult, UsageError, type Session, type Tally } from './session.ts';
import { counted, countText, timeText } from './terminal.ts';

/** Time limit for a consumer that holds an entry. Another consumer needs less time to claim the entry. */
const HELD_MS = 30_000;
const POLL_MS = 100;
const RECORDED_IDS = 1_000;

/** Numbers of entries, rows and events. `held`: entries that a consumer still holds. */
type Erased = Record<'queue' | 'warehouse' | 'quarantine' | 'held' | 'already', number> & { unknown: string[] };

export async function eraseEvents(session: Session, source: readonly string[] | string): Promise<boolean> {
  const ids = typeof source === 'string' ? await idsOf(source, session.stopped) : source;
  if (session.stopped.aborted) return false;
  const what = ids.length === 1 ? `"${printable(ids[0] ?? '')}"` : counted(ids.length, 'event');
  if (!(await session.confirm(`Erase ${what} for good?`))) return false;
  const { tried, ...sum } = await eraseAll(session, ids);
  const { held, already, unknown } = sum;
  const rows = `${counted(sum.warehouse, 'row')} in the warehouse, ${counted(sum.quarantine, 'row')} in the quarantine`;
  const until = session.queue.streams.flatMap(({ bytesUntilMs }) => bytesUntilMs ?? []);
  const untilMs = Math.max(...until);
  const bytesUntil = until.length === 0 ? undefined : Number.isFinite(untilMs) ? timeText(untilMs) : null;
  const done = `erased: ${counted(sum.queue, 'entry', 'entries')} on the queue, ${rows}\n`;
  printResult(session, { ...sum, bytesUntil }, bytesUntil === undefined ? done : done + bytesText(bytesUntil));
  if (already > 0) session.tell(`${counted(already, 'event')} already erased`);
  for (const id of unknown) session.tell(`no event with the id ${printable(id)} was found`);
  if (held > 0)
    session.tell(`not done: a consumer holds ${counted(held, 'entry', 'entries')}; run again after it has landed them`);
  if (tried < ids.length) session.tell('interrupted; run again for the rest');
  await eraseTraces(session);
  return held + unknown.length === 0 && tried === ids.length;
}

const bytesText = (until: string | null): string =>
  `the bytes stay in Redis' memory until ${until ?? 'the other entries of their blocks have been trimmed'}, ` +
  'longer if an earlier event has not landed by then, and in its files until they are rewritten after that: ' +
  'see "Bytes in Redis" in the runbook\n';

/** Erases events until a signal arrives. `copies` are entries that are known already. `tried` counts the events. */
export async function eraseAll(session: Session, ids: readonly string[], copies: readonly QueuedCopy[] = []) {
  const { queue, stopped, progress } = session;
  const sum: Erased = { queue: 0, warehouse: 0, quarantine: 0, held: 0, already: 0, unknown: [] };
  let tried = 0;
  for (const page of pages(ids, RECORDED_IDS)) {
    if (stopped.aborted) break;
    // The queue dated the events, and the clock of this machine may be slow.
    const clocks = await Promise.all(queue.streams.map((stream) => stream.clock()));
    const change = async (tally: Tally): Promise<void> => {
      for (const id of page) {
        if (stopped.aborted) break;
        await eraseOne(session, id, copies, sum, tally);
        tried += 1;
        progress(`erasing: ${countText(tried)} of ${counted(ids.length, 'event')}`);
      }
    };
    await audited(session, 'erase', auditLines(page), change, Math.max(...clocks));
  }
  progress('');
  return { tried, ...sum };
}

async function eraseOne(session: Session, id: string, listed: readonly QueuedCopy[], sum: Erased, tally: Tally) {
  const { queue, warehouse } = session;
  // Replays may be on any stream, so each one has the note.
  await Promise.all(queue.streams.map((stream) => stream.noteErasure(id)));
  const [row, rejected] = await Promise.all([warehouse.landed(id), warehouse.quarantineOf(id)]);
  const copies = [await streamOf(queue, id).find(id)].filter((copy) => copy !== undefined);
  // The entry's own row may have been released, but its replay is still on the queue.
  const names = new Set([...rejected.map(({ entry }) => entry), ...copies.map(quarantineRowName)]);
  const ofRows = await Promise.all(queue.streams.map((stream) => stream.copiesOfRows(id, [...names])));
  copies.push(...ofRows.flat(), ...listed.filter((copy) => copy.id === id));
  const occurrences = [...copies, ...rejected, ...(row === undefined ? [] : [row])];
  const isDone = occurrences.every(({ body }) => isErased(body));
  if (occurrences.length === 0) sum.unknown.push(id);
  else if (isDone) sum.already += 1;
  if (isDone) return;
  const entries = new Map(copies.map((copy) => [`${copy.source}/${copy.entry}`, copy]));
  for (const copy of entries.values())
    if (!isErased(copy.body)) sum[(await eraseEntry(session, copy, id)) ? 'queue' : 'held'] += 1;
  const landed = await warehouse.landed(id);
  if (landed !== undefined) {
    await warehouse.overwriteLanded(id, erasedBody(id, landed.type));
    sum.warehouse += 1;
  }
  for (const { entry, body } of await warehouse.quarantineOf(id)) {
    if (!isErased(body)) await warehouse.overwriteQuarantined(entry, erasedBody(id, namesIn(body).type));
    sum.quarantine += 1;
  }
  tally.changed += 1;
}

/** Returns false if a consumer still holds the entry after HELD_MS. */
async function eraseEntry(session: Session, copy: QueuedCopy, id: string): Promise<boolean> {
  const { queue, warehouse, clock, stopped } = session;
  const { producer, acceptedAtMs } = copy;
  const body = erasedBody(id, namesIn(copy.body).type);
  const event = parseEvent(copy.body);
  // An invalid event never lands.
  if (event.valid && producer !== undefined && !producer.includes('\0'))
    await warehouse.land({ id, type: event.type, producer, body: Buffer.from(body), acceptedAtMs });
  const stream = queue.streams.find(({ name }) => name === copy.stream) as QueuedStream;
  const deadline = clock.ms() + HELD_MS;
  for (; (await stream.erase(copy, id, body)) === 'held'; await clock.sleep(POLL_MS, stopped))
    if (stopped.aborted || clock.ms() > deadline) return false;
  return true;
}

/** Never waits for a named pipe in a thread, because the process could not exit until somebody opens the pipe. */
function openFile(file: string): Readable {
  if (file === '-') return process.stdin;
  if (!statSync(file).isFIFO()) return createReadStream(file);
  return new Socket({ fd: openSync(file, constants.O_RDONLY | constants.O_NONBLOCK) });
}

/**
 * Reads ids, one on each line; `-` is standard input. Returns none after an interrupt. Rejects with a UsageError that
 * names the first invalid line.
 */
async function idsOf(file: string, stopped: AbortSignal): Promise<readonly string[]> {
  let read: string;
  try {
    read = await text(addAbortSignal(stopped, openFile(file)));
  } catch (cause) {
    if (stopped.aborted) return [];
    throw new UsageError(`${file}: expected a readable file (${errno(cause)})`, { cause });
  }
  const lines = read.replace(/^\uFEFF/, '').split(/\r\n?|\n/);
  const invalid = lines.findIndex((line) => line !== '' && !isEventId(line));
  if (invalid !== -1) throw new UsageError(`${file}, line ${invalid + 1}: invalid event id`);
  const ids = new Set(lines.filter((line) => line !== ''));
  if (ids.size === 0) throw new UsageError(`${file}: expected one event id on each line`);
  return [...ids];
}
