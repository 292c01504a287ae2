// Decides which findings are new compared with a baseline. Each step handles only the findings that earlier steps
// left unmatched:
//   1. the same fingerprint at the same line and column, or at the line to which git says the old line moved
//   2. the same fingerprint: findings on unchanged lines first, then in the order of lines
//   3. the same kind on a changed line (changed-lines.ts)
//   4. the only finding of its rule in its file, before and now, if its message contains a number: `max-lines`
//      reports the first line beyond the limit, and every insertion changes that line
//
// The result does not depend on the order of the findings. Occurrence numbers are ignored, because they differ in a
// filtered report. The time is linear, even for 100,000 equal findings.
import { masked } from '../document/fingerprint.ts';
import type { Finding } from '../document/report-schema.ts';
import { isNeverBaselined } from './baseline.ts';
import type { BaselineEntry } from './baseline-file.ts';
import { type Current, type Pair, pairChangedLines } from './changed-lines.ts';
import { hunkAt, lineNow, type SourceChanges } from './source-changes.ts';

export interface Known {
  readonly entry: BaselineEntry;
  readonly by: 'fingerprint' | 'changed-line' | 'count';
}

export function matchFindings(
  entries: readonly BaselineEntry[],
  findings: readonly Finding[],
  changes?: SourceChanges,
) {
  const knownBy: (Known | undefined)[] = findings.map(() => undefined);
  const found = new Set<BaselineEntry>();
  const pairBy =
    (by: Known['by']): Pair =>
    ({ index }, entry) => {
      knownBy[index] = { entry, by };
      found.add(entry);
    };
  const known = Map.groupBy(entries, ({ finding }) => finding.fingerprint);
  const now = Map.groupBy(findings.keys(), (index) => (findings[index] as Finding).fingerprint);
  for (const [fingerprint, group] of known) {
    const isAccepted = group.some(({ accepted }) => accepted !== undefined);
    const current = (now.get(fingerprint) ?? []).map((index) => ({ index, finding: findings[index] as Finding }));
    pairGroup(
      group,
      current.filter(({ finding }) => isAccepted || !isNeverBaselined(finding)),
      changes,
      pairBy('fingerprint'),
    );
  }
  const left = entries.filter((entry) => !found.has(entry));
  const rest = findings.flatMap((finding, index) => (knownBy[index] === undefined ? [{ finding, index }] : []));
  pairChangedLines(left, rest, changes, pairBy('changed-line'));
  const isFree = (entry: BaselineEntry, index: number) => !found.has(entry) && knownBy[index] === undefined;
  pairCounts(entries, findings, isFree, pairBy('count'));
  return { knownBy, missing: entries.filter((entry) => !found.has(entry)) };
}

function pairGroup(
  entries: readonly BaselineEntry[],
  current: readonly Current[],
  changes: SourceChanges | undefined,
  pair: Pair,
): void {
  if (current.length === 0) return;
  const free = Map.groupBy(entries, (entry) => placeNow(entry, changes));
  const moved = current.filter((one) => {
    const { line = 0, column = 0 } = one.finding.location;
    const entry = free.get(`${line}:${column}`)?.pop();
    if (entry !== undefined) pair(one, entry);
    return entry === undefined;
  });
  const byLine = (a: Finding, b: Finding) =>
    (a.location.line ?? 0) - (b.location.line ?? 0) || (a.location.column ?? 0) - (b.location.column ?? 0);
  const left = [...free.values()].flat().sort((a, b) => byLine(a.finding, b.finding));
  const rest = moved.sort((a, b) => byLine(a.finding, b.finding));
  for (const [index, one] of chooseOld(left, rest, changes).entries()) {
    const entry = left[index];
    if (entry !== undefined) pair(one, entry);
  }
}

/** Returns the current line and column. 0 means that they are unknown, -1 that the line has changed. */
function placeNow({ finding }: BaselineEntry, changes: SourceChanges | undefined): string {
  const { path, line = 0, column = 0 } = finding.location;
  if (changes === undefined || path === undefined || line === 0) return `${line}:${column}`;
  const now = lineNow(changes.hunksIn(path), line);
  return `${typeof now === 'number' ? now : -1}:${column}`;
}

function chooseOld(
  left: readonly BaselineEntry[],
  rest: readonly Current[],
  changes: SourceChanges | undefined,
): readonly Current[] {
  if (rest.length <= left.length) return rest;
  if (changes === undefined) return rest.slice(0, left.length);
  const isTouched = ({ finding }: Current) =>
    hunkAt(changes.hunksIn(finding.location.path ?? ''), finding.location.line ?? 0) !== undefined;
  const old = new Set([...rest.filter((one) => !isTouched(one)), ...rest.filter(isTouched)].slice(0, left.length));
  return rest.filter((one) => old.has(one));
}

/** Step 4. `isFree` returns whether an entry and a finding are both unmatched. */
function pairCounts(
  entries: readonly BaselineEntry[],
  findings: readonly Finding[],
  isFree: (entry: BaselineEntry, index: number) => boolean,
  pair: Pair,
): void {
  const before = Map.groupBy(entries, ({ finding }) => ruleInFile(finding));
  const now = Map.groupBy(findings.keys(), (index) => ruleInFile(findings[index] as Finding));
  for (const [key, [index = 0, ...others]] of now) {
    const [entry, ...more] = before.get(key) ?? [];
    if (entry === undefined || others.length + more.length > 0 || !isFree(entry, index)) continue;
    const finding = findings[index] as Finding;
    const text = masked(finding.message);
    if (text !== finding.message && text === masked(entry.finding.message)) pair({ index, finding }, entry);
  }
}

function ruleInFile({ ruleId, location }: Finding): string {
  return JSON.stringify([ruleId, location.path ?? '']);
}
