// `quarantine replay`: puts quarantined events back on the queue and waits until they have landed.
//
// The consumer deletes a quarantine row after it commits the event's row and before it acknowledges the entry
// (lib/consumer/landing.ts), so the event always has a row, whichever process dies. An interrupted command can be run
// again: a replay that has not landed is not queued twice (lib/redis/stream/lua/replay.lua). Rows with the reason
// `invalid_entry` are not replayed.
import { namesIn } from '../ingest/erased.ts';
import { streamOf, type Replayed } from '../ingest/queue-admin.ts';
import { reasonCode } from '../ingest/warehouse-admin.ts';
import { printable } from '../process/printable.ts';
import { Patience } from './wait-for-consumers.ts';
import { noRows, selected, selectedCount, selectionText, type Selection } from './quarantine.ts';
import { audited, printResult, type Session, type Tally } from './session.ts';
import { counted } from './terminal.ts';

/** Maximum number of rows that are waiting to land. */
const AT_ONCE = 32;
const LISTED_MAX = 20;

/** Rows by outcome: the number of those that landed or are still waiting, and the names of the others. */
type Rows = Record<'landed' | 'waiting' | 'missing', number> & Record<'refused' | 'lost' | 'notReplayed', string[]>;

export async function replayRows(session: Session, selection: Selection): Promise<boolean> {
  const count = await selectedCount(session, selection);
  const missing = (selection.entries?.length ?? count) - count;
  const rows: Rows = { landed: 0, refused: [], lost: [], notReplayed: [], waiting: 0, missing };
  if (count === 0) return noRows(session, rows);
  if (!(await session.confirm(`Put ${counted(count, 'event')} back on the queue?`))) return false;
  return audited(session, 'replay', selectionText(selection), async (tally) => {
    const patience = new Patience(session);
    const replay = async (name: string): Promise<void> => {
      const outcome = await replayed(session, name, patience, tally);
      if (outcome === 'landed' || outcome === 'waiting') rows[outcome] += 1;
      else if (outcome !== undefined) rows[outcome].push(name);
      await patience.wait(true);
    };
    const failures: unknown[] = [];
    for await (const names of selected(session, selection, AT_ONCE)) {
      await Promise.all(names.map((name) => replay(name).catch((cause: unknown) => failures.push(cause))));
      if (failures.length > 0 || patience.isOver) break;
    }
    const isDone = report(session, rows, patience);
    if (failures.length > 0) throw failures[0];
    return isDone;
  });
}

/** Puts a row on the queue, and waits for the outcome. Resolves with `undefined` if the row does not exist. */
async function replayed(session: Session, name: string, patience: Patience, tally: Tally) {
  const { queue, warehouse } = session;
  const row = patience.isOver ? undefined : await warehouse.quarantineRow(name);
  if (row === undefined) return undefined;
  if (reasonCode(row.reason) === 'invalid_entry') return 'notReplayed';
  // The stream in the row's name (`<queue id>/<stream>/<entry>`), or else the one that the id maps to.
  const named = queue.streams.find((stream) => stream.name === name.split('/').at(-2));
  const stream = named ?? streamOf(queue, row.id ?? namesIn(row.body).id ?? '');
  const send = async (again: boolean): Promise<Replayed> => {
    const sent = await stream.replay({ ...row, replayOf: name }, again);
    if (sent.fresh) tally.changed += 1;
    return sent;
  };
  for (let sent = await send(false); ;) {
    // The consumer removes the row before it acknowledges the entry, so the state is read before the row.
    const [state] = await stream.states([sent.entry]);
    if ((await warehouse.present([name])).size === 0) return 'landed';
    const isOver = state === 'done' || state === 'gone';
    if (isOver && sent.fresh) return state === 'done' ? 'refused' : 'lost';
    // An entry of an earlier run is queued again.
    if (isOver) sent = await send(true);
    await patience.wait(isOver);
    if (patience.isOver) return 'waiting';
  }
}

function report(session: Session, rows: Rows, { deserted }: Patience): boolean {
  const { tell, stopped } = session;
  const { landed, refused, lost, notReplayed, waiting, missing } = rows;
  const lines = [
    `${counted(landed, 'event')} landed`,
    ...listed(refused, 'could not land again and stayed in the quarantine'),
    ...listed(lost, 'disappeared from the queue and stayed in the quarantine; run again'),
    ...listed(notReplayed, 'cannot be replayed: no body, no producer, or an invalid id'),
    ...(missing > 0 ? [`${counted(missing, 'entry', 'entries')} not found`] : []),
  ];
  printResult(session, rows, `${lines.join('\n')}\n`);
  const onQueue = `${counted(waiting, 'event')} on the queue will land`;
  if (deserted) tell(`no consumer is running: ${onQueue} once one starts`);
  else if (stopped.aborted) tell(`interrupted; ${onQueue}; run again for the rest`);
  return refused.length + lost.length + notReplayed.length + waiting + missing === 0 && !stopped.aborted;
}

const listed = (names: readonly string[], what: string): readonly string[] => [
  ...(names.length > 0 ? [`${counted(names.length, 'row')} ${what}`] : []),
  ...names.slice(0, LISTED_MAX).map((name) => `  ${printable(name)}`),
  ...(names.length > LISTED_MAX ? [`  and ${names.length - LISTED_MAX} more`] : []),
];
