// `reconcile`: compares the queue's entries with the warehouse and counts events that have neither a row nor a
// quarantine row. `--land` makes their entries pending again, so that consumers land them as usual.
//
// Invariant: a consumer acknowledges an entry after its row is committed. The state of an entry is read before the
// rows, so an acknowledged entry without a row is missing, also under load. An entry that is unread or pending waits.
import { hash } from 'node:crypto';
import { isErased, namesIn } from '../ingest/erased.ts';
import { isEventId } from '../ingest/event.ts';
import { QueueFailed, type QueuedCopy, type QueuedStream, type StateEntry } from '../ingest/queue-admin.ts';
import { RETENTION_MS, type EntryName } from '../ingest/queue.ts';
import { quarantineRowName } from '../ingest/warehouse.ts';
import { messageOf } from '../process/message-of.ts';
import { isSameProducer } from '../process/producer-name.ts';
import { eraseAgain, Erasures } from './erasures.ts';
import { Patience } from './patience.ts';
import { Report, writeMetrics } from './reconcile-report.ts';
import { answersOf, audited, RESULT, type Result, type Session, type Tally } from './session.ts';
import { counted, countText } from './terminal.ts';

/** Maximum number of events that are to land again. */
const LANDING_MAX = 4_096;

export interface Reconciling {
  readonly land: boolean;
  /** Maximum number of entries read per second. */
  readonly rate: number;
  /** The file that receives the result, in Prometheus' text format. */
  readonly metrics: string | undefined;
}

/** An entry without its body. */
interface Event extends EntryName {
  readonly id: string | undefined;
  readonly producer: string;
  readonly digest: string;
  readonly erased: boolean;
  /** The name of its quarantine row, if it has one. */
  readonly row: string;
}

/** The entries of the last RETENTION_MS, and of all unlanded events, that exist at the start. */
interface Window {
  readonly stream: QueuedStream;
  readonly startMs: number;
  readonly end: string;
}

async function windowOf(stream: QueuedStream): Promise<Window> {
  const nowMs = await stream.clock();
  const [{ partition }, { entry: end }] = await Promise.all([stream.status(), stream.end()]);
  return { stream, startMs: Math.max(1, nowMs - Math.max(RETENTION_MS, partition.oldestUnlandedMs)), end };
}

export async function reconcile(session: Session, options: Reconciling): Promise<Result> {
  if (!options.land) return new Reconciliation(session, options).run({ changed: 0 });
  if (!(await session.confirm('Land all events that are missing in the warehouse?'))) return RESULT.nothing;
  return audited(session, 'reconcile', '--land', (tally) => new Reconciliation(session, options).run(tally));
}

class Reconciliation {
  readonly #session: Session;
  readonly #options: Reconciling;
  readonly #erasures: Erasures;
  readonly #report = new Report();
  /** Events that were made pending again and have not landed yet, by their entries. */
  readonly #landing = new Map<QueuedStream, Map<string, Event>>();
  readonly #patience: Patience;

  constructor(session: Session, options: Reconciling) {
    this.#session = session;
    this.#options = options;
    this.#erasures = new Erasures(session);
    this.#patience = new Patience(session);
  }

  async run(tally: Tally): Promise<Result> {
    const { queue, warehouse, stopped, clock, tell, progress } = this.#session;
    const { land, metrics } = this.#options;
    const windows = await answersOf(queue.streams.map(windowOf));
    const { failures } = windows;
    const sinceMs = Math.min(...windows.found.map(({ startMs }) => startMs));
    this.#report.bodiesBack += await this.#erasures.read(sinceMs, land);
    for (const window of windows.found) {
      try {
        await this.#check(window, tally);
        while (this.#landingCount > 0 && !this.#patience.isOver) await this.#settle();
      } catch (cause) {
        failures.push(cause);
        this.#landing.delete(window.stream);
      }
      if (stopped.aborted) break;
    }
    progress('');
    const waiting = this.#landingCount;
    this.#report.print(this.#session, land);
    if (this.#patience.deserted) tell(`no consumer is running: ${counted(waiting, 'event')} will land once one starts`);
    else if (stopped.aborted) tell('interrupted; run again for the rest');
    const traces = land && this.#report.bodiesBack > 0 ? await warehouse.eraseTraces() : undefined;
    if (traces !== undefined) tell(traces);
    if (failures.length > 0) throw failuresOf(failures);
    if (stopped.aborted) return RESULT.nothing;
    if (metrics !== undefined) await writeMetrics(metrics, this.#report.metrics(land, clock.epochMs()));
    return this.#report.isGood(land) ? RESULT.done : RESULT.nothing;
  }

  async #check({ stream, startMs, end }: Window, tally: Tally): Promise<void> {
    const { clock, stopped, progress } = this.#session;
    for (let at = `${startMs - 1}-0`; !stopped.aborted;) {
      const readMs = clock.ms();
      const page = await stream.after(at, end);
      // As in the consumer, an invalid id is none, and the id in the body is used.
      const entries = page.entries.map((one) => ({ ...one, id: [one.id, namesIn(one.body).id].find(isEventId) }));
      if (entries.length === 0) return;
      at = entries.at(-1)?.entry ?? at;
      await this.#checkPage(stream, entries, tally);
      const { entries: checked, missing } = this.#report.sum;
      progress(`checking: ${counted(checked, 'entry', 'entries')}, ${countText(missing)} missing`);
      const dueMs = readMs + (1_000 * entries.length) / this.#options.rate;
      if (dueMs > clock.ms()) await clock.sleep(dueMs - clock.ms(), stopped);
    }
  }

  async #checkPage(stream: QueuedStream, entries: readonly StateEntry[], tally: Tally): Promise<void> {
    const back = entries.filter((entry) => this.#erasures.has(entry) && !isErased(entry.body));
    this.#report.bodiesBack += back.length;
    const events = entries.map(eventOf);
    const places = await this.#placesOf(events);
    const missing: Event[] = [];
    for (const [at, entry] of entries.entries()) {
      const place = back.includes(entry) ? 'erased' : (places[at] ?? (entry.state === 'done' ? 'missing' : 'waiting'));
      const event = events[at] as Event;
      if (place === 'missing') missing.push(event);
      this.#report.add(entry, place);
    }
    if (!this.#options.land) return;
    const copies = back.map((copy) => ({ stream, copy }));
    await eraseAgain(this.#session, [...new Set(back.flatMap(({ id }) => id ?? []))], copies);
    tally.changed += missing.length;
    await this.#landAgain(stream, missing);
  }

  /** Returns where each event is in the warehouse; undefined for an event that is nowhere. */
  async #placesOf(events: readonly Event[]) {
    const { warehouse } = this.#session;
    // A replay moves an event from the quarantine to its row, so the quarantine is asked first.
    const quarantined = await warehouse.present(events.map(({ row }) => row));
    const ids = [...new Set(events.flatMap(({ id }) => id ?? []))];
    const rows = new Map((await warehouse.rowsOf(ids)).map((row) => [row.id, row]));
    const places = events.map((event) => {
      const row = rows.get(event.id ?? '');
      const isOwn = row !== undefined && isSameProducer(row.producer, event.producer);
      if (isOwn && (row.erased || event.erased)) return 'erased';
      if (isOwn && row.digest === event.digest) return 'landed';
      if (quarantined.has(event.row)) return event.erased ? 'erased' : 'quarantined';
      return undefined;
    });
    if (!places.includes(undefined)) return places;
    // A row is recorded before it is dropped, so the records are read after the rows.
    const dropped = await this.#erasures.dropped();
    return places.map((place, at) => place ?? (dropped.has(events[at]?.row ?? '') ? 'erased' : undefined));
  }

  async #landAgain(stream: QueuedStream, events: readonly Event[]): Promise<void> {
    const landing = this.#landing.get(stream) ?? new Map<string, Event>();
    this.#landing.set(stream, landing);
    const states = await stream.landAgain(events);
    for (const [at, event] of events.entries()) if (states[at] === 'held') landing.set(event.entry, event);
    this.#patience.moved();
    while (this.#landingCount > LANDING_MAX && !this.#patience.isOver) await this.#settle();
  }

  get #landingCount(): number {
    return [...this.#landing.values()].reduce((sum, { size }) => sum + size, 0);
  }

  /** Checks once which events have landed. Pauses if none has. */
  async #settle(): Promise<void> {
    const { progress } = this.#session;
    const before = this.#landingCount;
    for (const [stream, landing] of this.#landing) {
      const states = await stream.states([...landing.keys()]);
      const done = [...landing.values()].filter((_, at) => states[at] !== 'held');
      if (done.length === 0) continue;
      this.#report.filled += (await this.#placesOf(done)).filter((place) => place !== undefined).length;
      for (const { entry } of done) landing.delete(entry);
    }
    progress(`landing: ${counted(this.#report.filled, 'event')} landed, ${countText(this.#landingCount)} left`);
    if (this.#landingCount < before) this.#patience.moved();
    else await this.#patience.wait();
  }
}

/** A failure of the warehouse is thrown as it is. Those of several streams become one. */
function failuresOf(failures: readonly unknown[]): unknown {
  const other = failures.find((cause) => !(cause instanceof QueueFailed));
  return other ?? new QueueFailed(failures.map(messageOf).join('; '), { cause: (failures[0] as Error).cause });
}

function eventOf({ entry, source, servers, id, producer = '', body, replayOf }: QueuedCopy): Event {
  const row = replayOf ?? quarantineRowName({ source, entry, producer, id, body });
  const place = { entry, source, ...(servers === undefined ? {} : { servers }) };
  return { ...place, id, producer, digest: hash('sha256', body), erased: isErased(body), row };
}
