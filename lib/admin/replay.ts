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
import { noRows, selected, selectedCount, selectionText, type Selection } from './quarantine.ts';
import { audited, RESULT, printJson, type Result, type Session } from './session.ts';
import { counted } from './terminal.ts';

/** Maximum number of rows that are waiting to land, and of rows and bytes per call. */
const WINDOW = 256;
const CALL_ROWS = 32;
const CALL_BYTES = 4 << 20;
const POLL_MS = 50;
/** After this time without progress, the command checks that a consumer is running. */
const NO_CONSUMER_MS = 10_000;

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
    for (let from = 0; from < names.length && !replay.stopped; from += CALL_ROWS)
      await replay.add(names.slice(from, from + CALL_ROWS));
    if (replay.stopped) break;
  }
  await replay.finish();
}

class Replaying {
  readonly rows = noneYet();
  /** The entries of rows that have not landed yet, by row name. */
  readonly waiting = new Map<string, Waiting>();
  /** True if no consumer is running. */
  deserted = false;
  /** Number of rows put on the queue. */
  sent = 0;
  readonly #session: Session;
  #movedMs: number;

  constructor(session: Session) {
    this.#session = session;
    this.#movedMs = session.clock.ms();
  }

  get stopped(): boolean {
    return this.deserted || this.#session.stopped.aborted;
  }

  /** Waits for room in the window, then puts rows on the queue. */
  async add(names: readonly string[]): Promise<void> {
    while (this.waiting.size > WINDOW - CALL_ROWS && !this.stopped) await this.#settle();
    if (this.stopped) return;
    let call: QuarantineBody[] = [];
    let bytes = 0;
    for (const name of names) {
      const row = await this.#session.warehouse.quarantineRow(name);
      if (row === undefined) continue;
      if (reasonCode(row.reason) === 'invalid_entry') {
        this.rows.notReplayed.push(name);
        continue;
      }
      if (call.length > 0 && bytes + row.body.length > CALL_BYTES) {
        await this.#send(call, false);
        call = [];
        bytes = 0;
      }
      call.push(row);
      bytes += row.body.length;
    }
    await this.#send(call, false);
  }

  async finish(): Promise<void> {
    while (this.waiting.size > 0 && !this.stopped) await this.#settle();
  }

  async #send(rows: readonly QuarantineBody[], again: boolean): Promise<void> {
    for (const [stream, some] of Map.groupBy(rows, (row) => this.#streamOf(row))) {
      const replayed = await stream.replay(
        some.map((row) => ({ ...row, replayOf: row.entry })),
        again,
      );
      for (const { replayOf, entry, fresh } of replayed) {
        this.waiting.set(replayOf, { stream, entry, fresh });
        if (fresh) this.sent += 1;
      }
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
    if (this.waiting.size < before) this.#movedMs = this.#session.clock.ms();
    else await this.#wait();
  }

  /** Handles an entry that was acknowledged or deleted without landing. An entry of an earlier run is queued again. */
  async #ended(name: string, { fresh }: Waiting, refused: boolean): Promise<void> {
    this.waiting.delete(name);
    const row = fresh ? undefined : await this.#session.warehouse.quarantineRow(name);
    if (row !== undefined) await this.#send([row], true);
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

  async #wait(): Promise<void> {
    const still = this.#session.clock.ms() - this.#movedMs;
    if (still > NO_CONSUMER_MS && !(await this.#isConsumed())) this.deserted = true;
    else await this.#session.clock.sleep(POLL_MS, this.#session.stopped);
  }

  async #isConsumed(): Promise<boolean> {
    const alive = await Promise.all(this.#session.queue.streams.map((stream) => stream.replicasAlive()));
    return alive.some((replicas) => replicas > 0);
  }
}

function resultOf(session: Session, { rows, waiting, deserted }: Replaying, missing: number): Result {
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
  if (deserted)
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
