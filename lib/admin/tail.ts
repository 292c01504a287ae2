// `tail`: shows events as they reach the queue, read outside the consumer group.
//
// Each stream is read every INTERVAL_MS, up to a limit of entries and bytes. If a stream grows faster, the command
// skips to its end and prints the number of skipped events.
import { namesIn } from '../ingest/erased.ts';
import { isEntryBefore, QueueFailed, type QueuedCopy, type QueuedStream } from '../ingest/queue-admin.ts';
import { TIME_MS_MAX } from '../ingest/warehouse.ts';
import { messageOf } from '../process/message-of.ts';
import { printable } from '../process/printable.ts';
import { matchesParts } from '../process/wildcard.ts';
import { bodyText, json } from './event.ts';
import { answersOf, audited, printResult, type Session, type Tally } from './session.ts';
import { bytesText, counted, timeText } from './terminal.ts';

const INTERVAL_MS = 200;
/** After this many full reads in a row, the command skips to the end of the stream. */
const FULL_READS_MAX = 5;
/** Maximum number of entries read per stream to find the last events. */
const SEARCHED_MAX = 10_000;
const WINDOW_FIRST_MS = 50;
const WINDOW_GROWTH = 8;

interface Tailing {
  /** `type` and `producer` may contain `*`. */
  readonly type: string | undefined;
  readonly producer: string | undefined;
  /** Number of existing events to show first. */
  readonly last: number | undefined;
  readonly follow: boolean;
  readonly bodies: boolean;
}

export function tailEvents(session: Session, tailing: Tailing): Promise<boolean> {
  if (!tailing.bodies) return tail(session, tailing, { changed: 0 });
  const patterns = (['type', 'producer'] as const).filter((name) => tailing[name] !== undefined);
  const what = ['--bodies', ...patterns.map((name) => `--${name} ${tailing[name]}`)].join(' ');
  return audited(session, 'tail', what, (tally) => tail(session, tailing, tally));
}

async function tail(session: Session, tailing: Tailing, tally: Tally): Promise<boolean> {
  const { clock, stopped, queue, tell } = session;
  const { last = 0, follow } = tailing;
  const readings = queue.streams.map((stream) => readingOf(session, stream, tailing));
  const { answers: found, failures } = await answersOf(readings.map((reading) => reading.begin(last)));
  const shown = inOrder(found).slice(-last);
  let isRead = await show(session, tailing, shown, tally);
  while (follow && isRead && !stopped.aborted) {
    await clock.sleep(INTERVAL_MS, stopped);
    if (stopped.aborted) break;
    const copies = await Promise.all(readings.map((reading) => reading.more()));
    isRead = await show(session, tailing, inOrder(copies), tally);
  }
  if (follow) return true;
  if (failures.length > 0) throw new QueueFailed(failures.map(messageOf).join('; '));
  if (stopped.aborted) tell('interrupted');
  else if (shown.length === 0) tell('no such events on the queue');
  return shown.length > 0 && !stopped.aborted && !readings.some((reading) => reading.isCutOff());
}

/** Reads one stream from its end on. */
function readingOf({ clock, stopped, tell }: Session, stream: QueuedStream, tailing: Tailing) {
  /** The last entry read; `undefined` until the stream has answered. */
  let at: string | undefined;
  /** Number of entries added to the stream up to `at`. */
  let added = 0;
  let fullReads = 0;
  let isAway = false;
  let isCutOff = false;

  async function skip() {
    const end = await stream.end();
    [at, added, fullReads] = [end.entry, end.added, 0];
    return end;
  }

  /** Moves to the end of the stream and returns its last `count` events, from windows that grow into the past. */
  async function begin(count: number): Promise<readonly QueuedCopy[]> {
    const { entry: end, length } = await skip();
    let copies: readonly QueuedCopy[] = [];
    let searched = 0;
    let until = end;
    let fromMs = count > 0 && length > 0 ? timeOf(end) : 0;
    for (let windowMs = WINDOW_FIRST_MS; copies.length < count && fromMs > 0; windowMs *= WINDOW_GROWTH) {
      fromMs = length <= count ? 0 : Math.max(0, timeOf(end) - windowMs);
      const older: QueuedCopy[] = [];
      for (let from = `${fromMs}-0`; isEntryBefore(from, until);) {
        // A window is read forward, so the part of one that was read is not the newest.
        isCutOff = searched >= SEARCHED_MAX;
        if (isCutOff) tell(`${stream.name}: only events since ${timeText(timeOf(until))} were searched`);
        if (isCutOff || stopped.aborted) return copies;
        await clock.sleep(INTERVAL_MS, stopped);
        const { entries } = await stream.after(from);
        const existing = entries.filter(({ entry }) => !isEntryBefore(until, entry));
        searched += existing.length;
        older.push(...matching(existing, tailing));
        from = entries.at(-1)?.entry ?? until;
      }
      copies = [...older, ...copies].slice(-count);
      until = `${fromMs}-0`;
    }
    return copies;
  }

  async function next(): Promise<readonly QueuedCopy[]> {
    if (at === undefined) return begin(0);
    if (fullReads >= FULL_READS_MAX) {
      const before = added;
      const skipped = counted((await skip()).added - before, 'event');
      tell(`${stream.name}: skipped ${skipped} that arrived faster than they are read`);
      return [];
    }
    const { entries, full } = await stream.after(at);
    [at, added, fullReads] = [entries.at(-1)?.entry ?? at, added + entries.length, full ? fullReads + 1 : 0];
    return matching(entries, tailing);
  }

  /** Returns the next events. Never rejects: an unavailable stream is reported once. */
  async function more(): Promise<readonly QueuedCopy[]> {
    const events = await next().catch((cause: unknown) => {
      if (!isAway) tell(messageOf(cause));
    });
    isAway = events === undefined;
    return events ?? [];
  }

  return { begin, more, isCutOff: () => isCutOff };
}

const matching = (entries: readonly QueuedCopy[], { type, producer }: Tailing): readonly QueuedCopy[] =>
  entries.filter((one) => matches(type, namesIn(one.body).type) && matches(producer, one.producer));

/** Returns false once the output has no reader. */
function show(session: Session, { bodies }: Tailing, events: readonly QueuedCopy[], tally: Tally): Promise<boolean> {
  for (const { stream, entry, producer, id, body } of events) {
    tally.changed += 1;
    const [time, { type }] = [timeText(timeOf(entry)), namesIn(body)];
    const value = { time, stream, entry, producer, type, id, bytes: body.length, ...(bodies && json({ body })) };
    const cells = [time, ...[producer, type, id].map((name) => printable(name ?? '-')), bytesText(body.length)];
    printResult(session, value, `${cells.join('  ')}\n${bodies ? `${bodyText(body)}\n` : ''}`);
  }
  return session.printed();
}

/** Other writers may name an entry later than any time. */
const timeOf = (entry: string): number => Math.min(Number(entry.split('-')[0]), TIME_MS_MAX);

const inOrder = (found: readonly (readonly QueuedCopy[])[]): readonly QueuedCopy[] =>
  found.flat().toSorted((one, other) => timeOf(one.entry) - timeOf(other.entry));

const matches = (pattern = '*', name = ''): boolean => matchesParts(pattern.split('*'), name);
