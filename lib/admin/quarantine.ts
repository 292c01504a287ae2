// `quarantine list`, `show` and `drop`, and the selection of rows that `drop` and `replay` share.
import { auditLines, type QuarantineFilter, type QuarantineRow } from '../ingest/warehouse-admin.ts';
import { printable } from '../process/printable.ts';
import { json, rowJson, rowText } from './event.ts';
import { audited, auditRecord, eraseTraces, pages, printResult, type Session } from './session.ts';
import { bytesText, counted, countText, table, timeText } from './terminal.ts';

/** The rows with these names, or else all that match the filter. */
export interface Selection extends QuarantineFilter {
  readonly entries: readonly string[] | undefined;
}

/** Maximum number of rows in a list, which is kept in memory. */
export const LIST_MAX = 10_000;
const PAGE = 500;

export async function listRows(session: Session, { limit, ...filter }: QuarantineFilter & { readonly limit: number }) {
  const { stopped, tell } = session;
  const rows: QuarantineRow[] = [];
  for await (const page of session.warehouse.quarantineList(filter)) {
    rows.push(...page);
    if (stopped.aborted || rows.length > limit) break;
  }
  const shown = rows.slice(0, limit);
  if (shown.length === 0) return noRows(session, []);
  printResult(session, shown.map(json), `${table([HEAD, ...shown.map(cells)], [2]).join('\n')}\n`);
  // If a signal arrives before all is printed, the exit code must not be 0.
  await session.printed();
  if (rows.length > limit && !session.json) tell(`there are older rows; --limit shows up to ${countText(LIST_MAX)}`);
  return !stopped.aborted;
}

const HEAD = ['entry', 'since', 'body', 'producer', 'id', 'reason'];
const cells = ({ entry, quarantinedAtMs, bodyBytes, producer, id = '-', reason }: QuarantineRow): string[] =>
  [entry, timeText(quarantinedAtMs), bytesText(bodyBytes), producer, id, reason].map(printable);

export async function showRow(session: Session, entry: string): Promise<boolean> {
  const row = await session.warehouse.quarantineRow(entry);
  if (row === undefined) session.tell('the quarantine has no row with this entry');
  printResult(session, row === undefined ? null : rowJson(row), row === undefined ? '' : `${rowText(row)}\n`);
  return row !== undefined;
}

export async function dropRows(session: Session, selection: Selection): Promise<boolean> {
  const { warehouse, stopped, tell } = session;
  const count = await selectedCount(session, selection);
  if (count === 0) return noRows(session, { dropped: 0 });
  if (!(await session.confirm(`Remove ${counted(count, 'row')} from the quarantine, for good?`))) return false;
  return audited(session, 'drop', selectionText(selection), async (tally) => {
    for await (const names of selected(session, selection, PAGE)) {
      // `reconcile` does not land dropped rows again (erasures.ts).
      await warehouse.audit({ ...auditRecord(session, 'dropped', auditLines(names)), changed: names.length });
      tally.changed += await warehouse.drop(names);
      if (stopped.aborted) break;
    }
    printResult(session, { dropped: tally.changed }, `removed ${counted(tally.changed, 'row')}\n`);
    if (stopped.aborted) tell('interrupted; run again for the rest');
    await eraseTraces(session);
    return tally.changed >= (selection.entries?.length ?? count);
  });
}

export function noRows(session: Session, result: unknown): false {
  session.tell('no such rows in the quarantine');
  printResult(session, result, '');
  return false;
}

export function selectionText({ entries, reason, sinceMs }: Selection): string {
  if (entries !== undefined) return entries.join(' ');
  const since = sinceMs === undefined ? '' : ` --since ${timeText(sinceMs)}`;
  return (reason === undefined ? '--all' : `--reason ${reason}`) + since;
}

export async function selectedCount({ warehouse }: Session, selection: Selection): Promise<number> {
  if (selection.entries === undefined) return warehouse.quarantineCount(selection);
  let count = 0;
  for (const page of pages(selection.entries, PAGE)) count += (await warehouse.present(page)).size;
  return count;
}

/** Yields pages of row names. A row may disappear before its page is used. */
export async function* selected(
  { warehouse }: Session,
  selection: Selection,
  size: number,
): AsyncGenerator<readonly string[], void> {
  if (selection.entries !== undefined) return yield* pages(selection.entries, size);
  for (let after: string | undefined = ''; after !== undefined;) {
    const names = await warehouse.quarantineNames(selection, after, size);
    if (names.length > 0) yield names;
    after = names.at(-1);
  }
}
