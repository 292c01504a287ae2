// `reconcile`: compares the queue's entries with the warehouse and counts events that have neither a row nor a
// quarantine row. `--land` makes their entries pending again, so that consumers land them as usual.
//
// Invariant: a consumer acknowledges an entry after its row is committed. The state of an entry is read before the
// rows, so an acknowledged entry without a row is missing, also under load. An entry that is unread or pending waits.
import { hash } from 'node:crypto';
import { isErased, namesIn } from '../ingest/erased.ts';
import { isEventId } from '../ingest/event.ts';
import { QueueFailed, type QueuedStream, type StateEntry } from '../ingest/queue-admin.ts';
import { RETENTION_MS } from '../ingest/queue.ts';
import { quarantineRowName } from '../ingest/warehouse.ts';
import { messageOf } from '../process/message-of.ts';
import { isSameProducer } from '../process/producer-name.ts';
import { eraseAll } from './erase.ts';
import { recordedErasures, type Erasures } from './erasures.ts';
import { Patience } from './wait-for-consumers.ts';
import { Report, writeMetrics, type EventPlace } from './reconcile-report.ts';
import { answersOf, audited, eraseTraces, type Session, type Tally } from './session.ts';
import { counted, countText } from './terminal.ts';

/** An erasure that has not ended for this long was killed. */
const ERASING_MS_MAX = 3_600_000;

interface Reconciling {
  readonly land: boolean;
  /** Maximum number of entries read per second. */
  readonly rate: number;
  /** The file that receives the result, in Prometheus' text format. */
  readonly metrics: string | undefined;
}

/** The entries of the last RETENTION_MS, and of all unlanded events, that exist at the start. */
async function windowOf(stream: QueuedStream) {
  const nowMs = await stream.clock();
  const [{ partition }, { entry: end }] = await Promise.all([stream.status(), stream.end()]);
  return { stream, startMs: Math.max(1, nowMs - Math.max(RETENTION_MS, partition.oldestUnlandedMs)), end };
}
type Window = Awaited<ReturnType<typeof windowOf>>;

export async function reconcile(session: Session, options: Reconciling): Promise<boolean> {
  if (!options.land) return compare(session, options, { changed: 0 });
  if (!(await session.confirm('Land all events that are missing in the warehouse?'))) return false;
  return audited(session, 'reconcile', '--land', (tally) => compare(session, options, tally));
}

interface Work extends Session, Reconciling {
  readonly tally: Tally;
  readonly erasures: Erasures;
  readonly report: Report;
  readonly patience: Patience;
}

async function compare(session: Session, options: Reconciling, tally: Tally): Promise<boolean> {
  const { queue, stopped, tell } = session;
  const { land, metrics } = options;
  const { answers: windows, failures } = await answersOf(queue.streams.map(windowOf));
  // With --land, those are erased, too: their command may have been killed.
  const openSinceMs = land ? Number.POSITIVE_INFINITY : session.clock.epochMs() - ERASING_MS_MAX;
  const erasures = await recordedErasures(session.warehouse, windows, openSinceMs);
  const [report, patience] = [new Report(), new Patience(session)];
  const work = { ...session, ...options, tally, erasures, report, patience };
  // A step that fails does not keep the others from their work, such as those of an available partition.
  for (const step of [checkRows, ...windows.map((window) => (of: Work) => check(of, window))])
    if (!stopped.aborted) await step(work).catch((cause: unknown) => failures.push(cause));
  session.progress('');
  report.print(session, land);
  const erasing = erasures.erasing.size;
  if (erasing > 0) tell(`${counted(erasing, 'event')} not checked: another command is erasing them`);
  if (patience.deserted) tell(`no consumer is running: ${counted(report.left, 'event')} will land once one starts`);
  else if (stopped.aborted) tell('interrupted; run again for the rest');
  if (land && report.back.size > 0) await eraseTraces(session);
  // A failure of the warehouse is thrown as it is. Those of several streams become one.
  for (const cause of failures) if (!(cause instanceof QueueFailed)) throw cause;
  const [first] = failures as QueueFailed[];
  if (first !== undefined) throw new QueueFailed(failures.map(messageOf).join('; '), { cause: first.cause });
  if (stopped.aborted) return false;
  if (metrics !== undefined) await writeMetrics(metrics, report.metrics(session.clock.epochMs()));
  return report.isGood;
}

/** Checks the rows of erased events, also of those that the queue no longer has. */
async function checkRows(work: Work): Promise<void> {
  for await (const ids of work.erasures.rowsBack()) {
    await bodiesBack(work, ids);
    if (work.stopped.aborted) return;
  }
}

/** Reports events whose bodies are back, and erases them again. `copies` are their entries, as far as known. */
async function bodiesBack(work: Work, ids: Iterable<string>, copies: readonly StateEntry[] = []): Promise<void> {
  const { report } = work;
  for (const id of ids) report.back.add(id);
  if (work.land) report.bodiesLeft += (await eraseAll(work, [...ids], copies)).held;
  else report.bodiesLeft = report.back.size;
}

async function check(work: Work, { stream, startMs, end }: Window): Promise<void> {
  const { clock, stopped, tally, report } = work;
  for (let at = `${startMs - 1}-0`; !stopped.aborted;) {
    const readMs = clock.ms();
    const page = await stream.after(at, end);
    // The consumer ignores an invalid id, too, and uses the id in the body.
    const entries = page.entries.map((one) => ({ ...one, id: [one.id, namesIn(one.body).id].find(isEventId) }));
    if (entries.length === 0) return;
    at = entries.at(-1)?.entry ?? at;
    const missing = await missingIn(work, entries);
    if (work.land) {
      tally.changed += missing.length;
      await landAgain(work, stream, missing);
    }
    const checked = counted(report.sum.entries, 'entry', 'entries');
    work.progress(`checking: ${checked}, ${countText(report.sum.missing)} missing`);
    const dueMs = readMs + (1_000 * entries.length) / work.rate;
    if (dueMs > clock.ms()) await clock.sleep(dueMs - clock.ms(), stopped);
  }
}

/** Adds a page to the report, erases bodies that are back, and returns the entries of missing events. */
async function missingIn(work: Work, entries: readonly StateEntry[]): Promise<readonly StateEntry[]> {
  const back = entries.filter((entry) => work.erasures.has(entry) && !isErased(entry.body));
  const places = await placesOf(work, entries);
  const missing = entries.filter((entry, at) => {
    const absent = entry.state === 'done' ? 'missing' : 'waiting';
    const place = back.includes(entry) ? 'erased' : (places[at] ?? absent);
    work.report.add(entry, place);
    return place === 'missing';
  });
  await bodiesBack(work, new Set(back.flatMap(({ id }) => id ?? [])), back);
  return missing;
}

/** Returns where each event is in the warehouse; undefined for an event that is nowhere. */
async function placesOf({ warehouse, erasures }: Work, entries: readonly StateEntry[]) {
  // A replay moves an event from the quarantine to its row, so the quarantine is asked first.
  const names = entries.map((entry) => entry.replayOf ?? quarantineRowName(entry));
  const quarantined = await warehouse.present(names);
  const ids = new Set(entries.flatMap(({ id }) => id ?? []));
  const rows = new Map((await warehouse.rowsOf([...ids])).map((row) => [row.id, row]));
  const places = entries.map(({ id = '', producer = '', body }, at): EventPlace | undefined => {
    const row = rows.get(id);
    const isOwn = row !== undefined && isSameProducer(row.producer, producer);
    if (isOwn && (row.erased || isErased(body))) return 'erased';
    if (isOwn && row.digest === hash('sha256', body)) return 'landed';
    if (quarantined.has(names[at] ?? '')) return isErased(body) ? 'erased' : 'quarantined';
    return undefined;
  });
  if (!places.includes(undefined)) return places;
  // A row is recorded before it is dropped, so the records are read after the rows.
  const dropped = await erasures.dropped();
  return places.map((place, at) => place ?? (dropped.has(names[at] ?? '') ? 'erased' : undefined));
}

/** Makes the entries pending again, and waits until consumers have acknowledged them. */
async function landAgain(work: Work, stream: QueuedStream, entries: readonly StateEntry[]): Promise<void> {
  const { report, patience } = work;
  const states = await stream.landAgain(entries);
  let rest = entries.filter((_, at) => states[at] === 'held');
  report.left += rest.length;
  await patience.wait(true);
  while (rest.length > 0 && !patience.isOver) {
    const now = await stream.states(rest.map(({ entry }) => entry));
    const done = rest.filter((_, at) => now[at] !== 'held');
    report.filled += (await placesOf(work, done)).filter((place) => place !== undefined).length;
    report.left -= done.length;
    rest = rest.filter((_, at) => now[at] === 'held');
    work.progress(`landing: ${counted(report.filled, 'event')} landed, ${countText(report.left)} left`);
    await patience.wait(done.length > 0);
  }
}
