// `quarantine list`, `show` and `drop`.
import { auditLines, type QuarantineFilter, type QuarantineRow } from '../ingest/warehouse-admin.ts';
import { printable } from '../process/printable.ts';
import { rowJson, rowText } from './event.ts';
import { actor, audited, RESULT, printJson, printResult, type Result, type Session, type Tally } from './session.ts';
import { bytesText, counted, countText, table, timeText } from './terminal.ts';

export type Selection =
  | { readonly kind: 'entries'; readonly entries: readonly string[] }
  | { readonly kind: 'filter'; readonly filter: QuarantineFilter };

/** Maximum number of rows in a list, which is kept in memory. */
export const LIST_MAX = 10_000;
/** Number of rows per statement. */
const PAGE = 500;

export async function listRows(session: Session, filter: QuarantineFilter, limit: number): Promise<Result> {
  const rows: QuarantineRow[] = [];
  for await (const page of session.warehouse.quarantineList(filter, limit + 1)) {
    rows.push(...page);
    if (session.stopped.aborted) break;
  }
  const shown = rows.slice(0, limit);
  if (session.json) printJson(session, shown.map(listedJson));
  else if (shown.length > 0) session.print(`${table([HEAD, ...shown.map(cells)], [2]).join('\n')}\n`);
  // If a signal arrives before all is printed, the exit code must not be 0.
  await session.printed();
  if (shown.length === 0) session.tell('no such rows in the quarantine');
  else if (rows.length > limit && !session.json)
    session.tell(`there are older rows; --limit shows up to ${countText(LIST_MAX)}`);
  return shown.length === 0 || session.stopped.aborted ? RESULT.nothing : RESULT.done;
}

const listedJson = ({ acceptedAtMs, quarantinedAtMs, ...row }: QuarantineRow): object => ({
  ...row,
  acceptedAt: timeText(acceptedAtMs),
  quarantinedAt: timeText(quarantinedAtMs),
});

const HEAD = ['entry', 'since', 'body', 'producer', 'id', 'reason'];
const cells = (row: QuarantineRow): string[] => [
  printable(row.entry),
  timeText(row.quarantinedAtMs),
  bytesText(row.bodyBytes),
  printable(row.producer),
  printable(row.id ?? '-'),
  printable(row.reason),
];

export async function showRow(session: Session, entry: string): Promise<Result> {
  const row = await session.warehouse.quarantineRow(entry);
  if (row === undefined) {
    session.tell('the quarantine has no row with this entry');
    if (session.json) printJson(session, null);
    return RESULT.nothing;
  }
  printResult(session, rowJson(row), `${rowText(row)}\n`);
  return RESULT.done;
}

export async function dropRows(session: Session, selection: Selection): Promise<Result> {
  const found = await selectedCount(session, selection);
  if (found === 0) return noRows(session, { dropped: 0 });
  if (!(await session.confirm(`Remove ${counted(found, 'row')} from the quarantine, for good?`))) return RESULT.nothing;
  return audited(session, 'drop', selectionText(selection), (tally) => dropSelected(session, selection, found, tally));
}

async function dropSelected(session: Session, selection: Selection, found: number, tally: Tally): Promise<Result> {
  const { warehouse, stopped, random, clock } = session;
  for await (const names of selected(session, selection)) {
    // `reconcile` does not land dropped rows again (erasures.ts).
    const record = { id: random.uuid(), atMs: clock.epochMs(), actor: actor(), command: 'dropped' };
    await warehouse.audit({ ...record, what: auditLines(names), changed: names.length });
    tally.changed += await warehouse.drop(names);
    if (stopped.aborted) break;
  }
  const dropped = tally.changed;
  printResult(session, { dropped }, `removed ${counted(dropped, 'row')}\n`);
  if (stopped.aborted) session.tell('interrupted; run again for the rest');
  const rest = await warehouse.eraseTraces();
  if (rest !== undefined) session.tell(rest);
  const wanted = selection.kind === 'entries' ? selection.entries.length : found;
  return dropped < wanted ? RESULT.nothing : RESULT.done;
}

export function noRows(session: Session, result: unknown): Result {
  session.tell('no such rows in the quarantine');
  if (session.json) printJson(session, result);
  return RESULT.nothing;
}

/** Formats a selection as command-line arguments. */
export function selectionText(selection: Selection): string {
  if (selection.kind === 'entries') return selection.entries.join(' ');
  const { filter } = selection;
  return [
    filter.reason === undefined ? '--all' : `--reason ${filter.reason}`,
    ...(filter.sinceMs === undefined ? [] : [`--since ${timeText(filter.sinceMs)}`]),
  ].join(' ');
}

export async function selectedCount({ warehouse }: Session, selection: Selection): Promise<number> {
  if (selection.kind === 'filter') return warehouse.quarantineCount(selection.filter);
  let found = 0;
  for (const page of pages(selection.entries)) found += (await warehouse.present(page)).size;
  return found;
}

/** Yields pages of row names. A row may disappear before its page is used. */
export async function* selected({ warehouse }: Session, selection: Selection): AsyncGenerator<readonly string[]> {
  if (selection.kind === 'entries') {
    for (const page of pages(selection.entries)) yield page;
    return;
  }
  for (let after: string | undefined = ''; after !== undefined;) {
    const names = await warehouse.quarantineNames(selection.filter, after, PAGE);
    if (names.length > 0) yield names;
    after = names.at(-1);
  }
}

function* pages(names: readonly string[]): Generator<readonly string[]> {
  for (let from = 0; from < names.length; from += PAGE) yield names.slice(from, from + PAGE);
}
