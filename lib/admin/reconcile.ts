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
import { eraseAgain, Erasures } from './erasures.ts';
import { Patience } from './patience.ts';
import { Report, writeMetrics, type EventPlace } from './reconcile-report.ts';
import { answersOf, audited, type Session, type Tally } from './session.ts';
import { counted, countText } from './terminal.ts';

export interface Reconciling {
  readonly land: boolean;
  /** Maximum number of entries read per second. */
  readonly rate: number;
  /** The file that receives the result, in Prometheus' text format. */
  readonly metrics: string | undefined;
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

export async function reconcile(session: Session, options: Reconciling): Promise<boolean> {
  if (!options.land) return new Reconciliation(session, options).run({ changed: 0 });
  if (!(await session.confirm('Land all events that are missing in the warehouse?'))) return false;
  return audited(session, 'reconcile', '--land', (tally) => new Reconciliation(session, options).run(tally));
}

class Reconciliation {
  readonly #session: Session;
  readonly #options: Reconciling;
  readonly #erasures: Erasures;
  readonly #report = new Report();
  readonly #patience: Patience;
  /** Number of events that are pending again and have not landed. */
  #waiting = 0;

  constructor(session: Session, options: Reconciling) {
    this.#session = session;
    this.#options = options;
    this.#erasures = new Erasures(session);
    this.#patience = new Patience(session);
  }

  async run(tally: Tally): Promise<boolean> {
    const { queue, warehouse, stopped, clock, tell, progress } = this.#session;
    const { land, metrics } = this.#options;
    const { found: windows, failures } = await answersOf(queue.streams.map(windowOf));
    const sinceMs = Math.min(...windows.map(({ startMs }) => startMs));
    this.#report.bodiesBack += await this.#erasures.read(sinceMs, land);
    for (const window of windows)
      if (!stopped.aborted) await this.#check(window, tally).catch((cause: unknown) => failures.push(cause));
    progress('');
    this.#report.print(this.#session, land);
    if (this.#patience.deserted)
      tell(`no consumer is running: ${counted(this.#waiting, 'event')} will land once one starts`);
    else if (stopped.aborted) tell('interrupted; run again for the rest');
    const traces = land && this.#report.bodiesBack > 0 ? await warehouse.eraseTraces() : undefined;
    if (traces !== undefined) tell(traces);
    if (failures.length > 0) throw failuresOf(failures);
    if (stopped.aborted) return false;
    if (metrics !== undefined) await writeMetrics(metrics, this.#report.metrics(land, clock.epochMs()));
    return this.#report.isGood(land);
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
      const missing = await this.#missingIn(entries);
      if (this.#options.land) {
        tally.changed += missing.length;
        await this.#landAgain(stream, missing);
      }
      const { entries: checked, missing: all } = this.#report.sum;
      progress(`checking: ${counted(checked, 'entry', 'entries')}, ${countText(all)} missing`);
      const dueMs = readMs + (1_000 * entries.length) / this.#options.rate;
      if (dueMs > clock.ms()) await clock.sleep(dueMs - clock.ms(), stopped);
    }
  }

  /** Adds a page to the report, erases bodies that are back, and returns the entries of missing events. */
  async #missingIn(entries: readonly StateEntry[]): Promise<readonly StateEntry[]> {
    const back = new Set(entries.filter((entry) => this.#erasures.has(entry) && !isErased(entry.body)));
    this.#report.bodiesBack += back.size;
    const places = await this.#placesOf(entries);
    const missing: StateEntry[] = [];
    for (const [at, entry] of entries.entries()) {
      const place = back.has(entry) ? 'erased' : (places[at] ?? (entry.state === 'done' ? 'missing' : 'waiting'));
      if (place === 'missing') missing.push(entry);
      this.#report.add(entry, place);
    }
    const ids = new Set([...back].flatMap(({ id }) => id ?? []));
    if (this.#options.land) await eraseAgain(this.#session, [...ids], [...back]);
    return missing;
  }

  /** Returns where each event is in the warehouse; undefined for an event that is nowhere. */
  async #placesOf(entries: readonly StateEntry[]): Promise<readonly (EventPlace | undefined)[]> {
    const { warehouse } = this.#session;
    // A replay moves an event from the quarantine to its row, so the quarantine is asked first.
    const names = entries.map((entry) => entry.replayOf ?? quarantineRowName(entry));
    const quarantined = await warehouse.present(names);
    const ids = new Set(entries.flatMap(({ id }) => id ?? []));
    const rows = new Map((await warehouse.rowsOf([...ids])).map((row) => [row.id, row]));
    const places = entries.map(({ id = '', producer = '', body }, at) => {
      const row = rows.get(id);
      const isOwn = row !== undefined && isSameProducer(row.producer, producer);
      if (isOwn && (row.erased || isErased(body))) return 'erased';
      if (isOwn && row.digest === hash('sha256', body)) return 'landed';
      if (quarantined.has(names[at] ?? '')) return isErased(body) ? 'erased' : 'quarantined';
      return undefined;
    });
    if (!places.includes(undefined)) return places;
    // A row is recorded before it is dropped, so the records are read after the rows.
    const dropped = await this.#erasures.dropped();
    return places.map((place, at) => place ?? (dropped.has(names[at] ?? '') ? 'erased' : undefined));
  }

  /** Makes the entries pending again, and waits until consumers have acknowledged them. */
  async #landAgain(stream: QueuedStream, entries: readonly StateEntry[]): Promise<void> {
    const states = await stream.landAgain(entries);
    let left = entries.filter((_, at) => states[at] === 'held');
    this.#waiting += left.length;
    await this.#patience.wait(true);
    while (left.length > 0 && !this.#patience.isOver) {
      const now = await stream.states(left.map(({ entry }) => entry));
      const done = left.filter((_, at) => now[at] !== 'held');
      this.#report.filled += (await this.#placesOf(done)).filter((place) => place !== undefined).length;
      left = left.filter((_, at) => now[at] === 'held');
      this.#waiting -= done.length;
      this.#session.progress(
        `landing: ${counted(this.#report.filled, 'event')} landed, ${countText(this.#waiting)} left`,
      );
      await this.#patience.wait(done.length > 0);
    }
  }
}

/** A failure of the warehouse is thrown as it is. Those of several streams become one. */
function failuresOf(failures: readonly unknown[]): unknown {
  const other = failures.find((cause) => !(cause instanceof QueueFailed));
  return other ?? new QueueFailed(failures.map(messageOf).join('; '), { cause: (failures[0] as Error).cause });
}
