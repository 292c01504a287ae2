// `quarantine replay`: puts quarantined events back on the queue and waits until they have landed.
//
// The consumer deletes a quarantine row after it commits the event's row and before it acknowledges the entry
// (lib/consumer/landing.ts), so the event always has a row, whichever process dies. An interrupted command can be run
// again: a replay that has not landed is not queued twice (lib/redis/stream/lua/replay.lua). Rows with the reason
// `invalid_entry` are not replayed.
import { namesIn } from '../ingest/erased.ts';
import { streamOf, type QueuedStream, type Replayed } from '../ingest/queue-admin.ts';
import { reasonCode, type QuarantineBody } from '../ingest/warehouse-admin.ts';
import { printable } from '../process/printable.ts';
import { Patience } from './patience.ts';
import { noRows, selected, selectedCount, selectionText, type Selection } from './quarantine.ts';
import { audited, printResult, type Session, type Tally } from './session.ts';
import { counted } from './terminal.ts';

/** The entry on the queue of a row that has not landed yet. */
interface Waiting extends Replayed {
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

export async function replayRows(session: Session, selection: Selection): Promise<boolean> {
  const found = await selectedCount(session, selection);
  const missing = selection.kind === 'entries' ? selection.entries.length - found : 0;
  if (found === 0) return noRows(session, { ...noneYet(), waiting: 0, missing });
  if (!(await session.confirm(`Put ${counted(found, 'event')} back on the queue?`))) return false;
  return audited(session, 'replay', selectionText(selection), async (tally) => {
    const replay = new Replaying(session, tally);
    for await (const names of selected(session, selection)) {
      await replay.page(names);
      if (replay.patience.isOver) break;
    }
    return replay.report(missing);
  });
}

class Replaying {
  readonly patience: Patience;
  readonly #session: Session;
  readonly #tally: Tally;
  readonly #rows = noneYet();
  /** By row name. */
  readonly #waiting = new Map<string, Waiting>();

  constructor(session: Session, tally: Tally) {
    this.#session = session;
    this.#tally = tally;
    this.patience = new Patience(session);
  }

  /** Puts rows on the queue, and waits until each has landed or has not. */
  async page(names: readonly string[]): Promise<void> {
    for (const name of names) {
      const row = this.patience.isOver ? undefined : await this.#session.warehouse.quarantineRow(name);
      if (row === undefined) continue;
      if (reasonCode(row.reason) === 'invalid_entry') this.#rows.notReplayed.push(name);
      else await this.#send(row, false);
    }
    while (this.#waiting.size > 0 && !this.patience.isOver) await this.patience.wait(await this.#settle());
  }

  /** Uses the stream in the row's name (`<queue id>/<stream>/<entry>`), or else the one that the id maps to. */
  async #send(row: QuarantineBody, again: boolean): Promise<void> {
    const { entry, id, body } = row;
    const { queue } = this.#session;
    const named = queue.streams.find(({ name }) => name === entry.split('/').at(-2));
    const stream = named ?? streamOf(queue, id ?? namesIn(body).id ?? '');
    for (const replayed of await stream.replay([{ ...row, replayOf: entry }], again)) {
      this.#waiting.set(entry, { stream, ...replayed });
      if (replayed.fresh) this.#tally.changed += 1;
    }
  }

  /** Checks all waiting rows once. Returns true if one of them is finished. */
  async #settle(): Promise<boolean> {
    const before = this.#waiting.size;
    await this.#removeLanded();
    const ended: [name: string, refused: boolean][] = [];
    for (const [stream, some] of Map.groupBy(this.#waiting.values(), (one) => one.stream)) {
      const states = await stream.states(some.map(({ entry }) => entry));
      for (const [at, { replayOf }] of some.entries())
        if (states[at] === 'done' || states[at] === 'gone') ended.push([replayOf, states[at] === 'done']);
    }
    // If the row disappeared between the two queries, the event has landed.
    if (ended.length > 0) await this.#removeLanded();
    for (const [name, refused] of ended) await this.#ended(name, refused);
    return this.#waiting.size < before;
  }

  /** Handles an entry that was acknowledged or deleted without landing. An entry of an earlier run is queued again. */
  async #ended(name: string, refused: boolean): Promise<void> {
    const replayed = this.#waiting.get(name);
    if (replayed === undefined) return;
    this.#waiting.delete(name);
    const row = replayed.fresh ? undefined : await this.#session.warehouse.quarantineRow(name);
    if (row !== undefined) await this.#send(row, true);
    else if (!replayed.fresh) this.#rows.landed += 1;
    else (refused ? this.#rows.refused : this.#rows.lost).push(name);
  }

  async #removeLanded(): Promise<void> {
    const present = await this.#session.warehouse.present([...this.#waiting.keys()]);
    for (const name of this.#waiting.keys())
      if (!present.has(name)) {
        this.#waiting.delete(name);
        this.#rows.landed += 1;
      }
  }

  report(missing: number): boolean {
    const { tell, stopped } = this.#session;
    const { landed, refused, lost, notReplayed } = this.#rows;
    const waiting = this.#waiting.size;
    const lines = [
      `${counted(landed, 'event')} landed`,
      ...listed(refused, 'could not land again and stayed in the quarantine'),
      ...listed(lost, 'disappeared from the queue and stayed in the quarantine; run again'),
      ...listed(notReplayed, 'cannot be replayed: no body, no producer, or an invalid id'),
      ...(missing > 0 ? [`${counted(missing, 'entry', 'entries')} not found`] : []),
    ];
    printResult(this.#session, { ...this.#rows, waiting, missing }, `${lines.join('\n')}\n`);
    const onQueue = `${counted(waiting, 'event')} on the queue will land`;
    if (this.patience.deserted) tell(`no consumer is running: ${onQueue} once one starts`);
    else if (stopped.aborted) tell(`interrupted; ${onQueue}; run again for the rest`);
    return refused.length + lost.length + notReplayed.length + waiting + missing === 0 && !stopped.aborted;
  }
}

const LISTED_MAX = 20;

const listed = (names: readonly string[], what: string): readonly string[] => [
  ...(names.length > 0 ? [`${counted(names.length, 'row')} ${what}`] : []),
  ...names.slice(0, LISTED_MAX).map((name) => `  ${printable(name)}`),
  ...(names.length > LISTED_MAX ? [`  and ${names.length - LISTED_MAX} more`] : []),
];
