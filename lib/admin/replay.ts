// `quarantine replay`: puts quarantined events back on the queue and waits until they have landed.
//
// The consumer deletes a quarantine row after it commits the event's row and before it acknowledges the entry
// (lib/consumer/landing.ts), so the event always has a row, whichever process dies. An interrupted command can be run
// again: a replay that has not landed is not queued twice (lib/redis/stream/lua/replay.lua). Rows with the reason
// `invalid_entry` are not replayed.
import { namesIn } from '../ingest/erased.ts';
import { streamOf, type EntryState, type QueuedStream, type Replayed } from '../ingest/queue-admin.ts';
import { reasonCode, type QuarantineBody } from '../ingest/warehouse-admin.ts';
import { printable } from '../process/printable.ts';
import { Patience } from './patience.ts';
import { noRows, selected, selectedCount, selectionText, type Selection } from './quarantine.ts';
import { audited, RESULT, printJson, type Result, type Session } from './session.ts';
import { counted } from './terminal.ts';

/** Maximum number of rows that are waiting to land. */
const WINDOW = 256;

/** The entry on the queue of a row that has not landed yet. */
interface Waiting extends Omit<Replayed, 'replayOf'> {
  readonly stream: QueuedStream;
}

/** Rows by result: the number of landed ones, and the names of the others. */
interface Rows {
  landed: number;
  /** Rows that were refused again. */
  readonly refused: string[];
  /** Rows whose entries disappeared from the queue before they landed. */
  readonly lost: string[];
  readonly notReplayed: string[];
}

const noneYet = (): Rows => ({ landed: 0, refused: [], lost: [], notReplayed: [] });

export async function replayRows(session: Session, selection: Selection): Promise<Result> {
  const found = await selectedCount(session, selection);
  const missing = selection.kind === 'entries' ? selection.entries.length - found : 0;
  if (found === 0) return noRows(session, { ...noneYet(), waiting: 0, missing });
  if (!(await session.confirm(`Put ${counted(found, 'event')} back on the queue?`))) return RESULT.nothing;
  return audited(session, 'replay', selectionText(selection), async (tally) => {
    const replay = new Replaying(session);
    await replaySelected(session, selection, replay).finally(() => (tally.changed = replay.sent));
    return resultOf(session, replay, missing);
  });
}

async function replaySelected(session: Session, selection: Selection, replay: Replaying): Promise<void> {
  for await (const names of selected(session, selection)) {
    for (const name of names) if (!replay.patience.isOver) await replay.add(name);
    if (replay.patience.isOver) break;
  }
  await replay.settleAbove(0);
}

class Replaying {
  readonly rows = noneYet();
  /** The entries of rows that have not landed yet, by row name. */
  readonly waiting = new Map<string, Waiting>();
  readonly patience: Patience;
  /** Number of rows put on the queue. */
  sent = 0;
  readonly #session: Session;

  constructor(session: Session) {
    this.#session = session;
    this.patience = new Patience(session);
  }

  /** Waits for room in the window, then puts a row on the queue. */
  async add(name: string): Promise<void> {
    await this.settleAbove(WINDOW - 1);
    const row = this.patience.isOver ? undefined : await this.#session.warehouse.quarantineRow(name);
    if (row === undefined) return;
    if (reasonCode(row.reason) === 'invalid_entry') this.rows.notReplayed.push(name);
    else await this.#send(row, false);
  }

  async settleAbove(count: number): Promise<void> {
    while (this.waiting.size > count && !this.patience.isOver) await this.#settle();
  }

  async #send(row: QuarantineBody, again: boolean): Promise<void> {
    const stream = this.#streamOf(row);
    for (const { replayOf, entry, fresh } of await stream.replay([{ ...row, replayOf: row.entry }], again)) {
      this.waiting.set(replayOf, { stream, entry, fresh });
      if (fresh) this.sent += 1;
    }
  }

  /**
   * Returns the stream named in the row's `entry` (`<queue id>/<stream>/<entry>`). If the queue has no such stream,
   * returns the one that the event's id maps to.
   */
  #streamOf({ entry, id, body }: QuarantineBody): QueuedStream {
    const { queue } = this.#session;
    const name = entry.split('/').at(-2);
    return queue.streams.find((stream) => stream.name === name) ?? streamOf(queue, id ?? namesIn(body).id ?? '');
  }

  async #states(): Promise<ReadonlyMap<string, EntryState>> {
    const states = new Map<string, EntryState>();
    for (const [stream, some] of Map.groupBy(this.waiting, ([, { stream }]) => stream)) {
      const found = await stream.states(some.map(([, { entry }]) => entry));
      for (const [at, [name]] of some.entries()) states.set(name, found[at] as EntryState);
    }
    return states;
  }

  /** Checks all waiting rows once. Pauses if none of them is finished. */
  async #settle(): Promise<void> {
    const before = this.waiting.size;
    await this.#landed();
    const ended = [...(await this.#states())].filter(([, state]) => state === 'done' || state === 'gone');
    if (ended.length > 0) {
      // If the row disappeared between the two queries, the event has landed.
      await this.#landed();
      for (const [name, state] of ended) {
        const replayed = this.waiting.get(name);
        if (replayed !== undefined) await this.#ended(name, replayed, state === 'done');
      }
    }
    if (this.waiting.size < before) this.patience.moved();
    else await this.patience.wait();
  }

  /** Handles an entry that was acknowledged or deleted without landing. An entry of an earlier run is queued again. */
  async #ended(name: string, { fresh }: Waiting, refused: boolean): Promise<void> {
    this.waiting.delete(name);
    const row = fresh ? undefined : await this.#session.warehouse.quarantineRow(name);
    if (row !== undefined) await this.#send(row, true);
    else if (!fresh) this.rows.landed += 1;
    else (refused ? this.rows.refused : this.rows.lost).push(name);
  }

  /** Removes landed rows from `waiting`. */
  async #landed(): Promise<void> {
    const present = await this.#session.warehouse.present([...this.waiting.keys()]);
    for (const name of this.waiting.keys()) {
      if (present.has(name)) continue;
      this.waiting.delete(name);
      this.rows.landed += 1;
    }
  }
}

function resultOf(session: Session, { rows, waiting, patience }: Replaying, missing: number): Result {
  const { landed, refused, lost, notReplayed } = rows;
  const waitingRows = waiting.size;
  if (session.json) {
    printJson(session, { ...rows, waiting: waitingRows, missing });
  } else {
    session.print(`${counted(landed, 'event')} landed\n`);
    listed(session, refused, 'could not land again and stayed in the quarantine');
    listed(session, lost, 'disappeared from the queue and stayed in the quarantine; run again');
    listed(session, notReplayed, 'cannot be replayed: no body, no producer, or an invalid id');
    if (missing > 0) session.print(`${counted(missing, 'entry', 'entries')} not found\n`);
  }
  if (patience.deserted)
    session.tell(`no consumer is running: ${counted(waitingRows, 'event')} on the queue will land once one starts`);
  else if (session.stopped.aborted)
    session.tell(`interrupted; ${counted(waitingRows, 'event')} on the queue will land; run again for the rest`);
  const all =
    refused.length + lost.length + notReplayed.length + waitingRows + missing === 0 && !session.stopped.aborted;
  return all ? RESULT.done : RESULT.nothing;
}

const LISTED_MAX = 20;

function listed({ print }: Session, names: readonly string[], what: string): void {
  if (names.length === 0) return;
  print(`${counted(names.length, 'row')} ${what}\n`);
  for (const name of names.slice(0, LISTED_MAX)) print(`  ${printable(name)}\n`);
  if (names.length > LISTED_MAX) print(`  and ${names.length - LISTED_MAX} more\n`);
}
