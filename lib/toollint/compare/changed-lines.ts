// Matches known findings on changed lines. Changing a line changes the fingerprints of its findings, so within a
// hunk, a finding is also known by its rule, its message (numbers masked) and its flagged text. Each entry matches
// only once, so one more finding of the same kind is new.
import { anchorIn } from '../document/extension.ts';
import { lineAnchor, masked } from '../document/fingerprint.ts';
import type { Finding } from '../document/report-schema.ts';
import type { BaselineEntry } from './baseline-file.ts';
import { type Hunk, hunkAt, type SourceChanges } from './source-changes.ts';

export interface Current {
  readonly index: number;
  readonly finding: Finding;
}

export type Pair = (current: Current, entry: BaselineEntry) => void;

/** Pairs the remaining entries and findings. Without `changes`, the whole file is one hunk. */
export function pairChangedLines(
  entries: readonly BaselineEntry[],
  current: readonly Current[],
  changes: SourceChanges | undefined,
  pair: Pair,
): void {
  const before = Map.groupBy(entries, ({ finding }) => kindOf(finding));
  for (const [kind, findings] of Map.groupBy(current, ({ finding }) => kindOf(finding))) {
    const same = before.get(kind);
    if (kind === undefined || same === undefined) continue;
    const path = findings[0]?.finding.location.path ?? '';
    if (changes === undefined) pairInOrder(same, findings, pair);
    else pairInHunks(same, findings, changes.hunksIn(path), pair);
  }
}

function kindOf(finding: Finding): string | undefined {
  const { ruleId, message, location } = finding;
  const text = anchorIn(finding)?.flagged;
  return text === undefined ? undefined : JSON.stringify([location.path, ruleId, masked(message), text]);
}

/** Returns the findings that have no entry. */
function pairInOrder(entries: readonly BaselineEntry[], findings: readonly Current[], pair: Pair): readonly Current[] {
  for (const [index, entry] of entries.slice(0, findings.length).entries()) pair(findings[index] as Current, entry);
  return findings.slice(entries.length);
}

function pairInHunks(
  entries: readonly BaselineEntry[],
  findings: readonly Current[],
  hunks: readonly Hunk[],
  pair: Pair,
): void {
  const free = new Set(entries);
  const left: Current[] = [];
  for (const [hunk, inside] of Map.groupBy(findings, ({ finding }) => hunkAt(hunks, finding.location.line ?? 0))) {
    if (hunk === undefined) continue;
    const known = [...free].filter((entry) => isIn(hunk, entry)).slice(0, inside.length);
    for (const entry of known) free.delete(entry);
    left.push(...pairInOrder(known, inside, pair));
  }
  // If the baseline was made from uncommitted changes, the commit has no such line, so these entries are paired in
  // order.
  const lost = [...free].filter((entry) => !hunks.some((hunk) => isIn(hunk, entry)));
  pairInOrder(
    lost.filter(({ finding }) => finding.location.line === undefined),
    left,
    pair,
  );
}

const anchorsOf = new WeakMap<Hunk, ReadonlySet<string>>();

function isIn(hunk: Hunk, { finding }: BaselineEntry): boolean {
  const { line } = finding.location;
  if (line !== undefined) return line >= hunk.oldStart && line < hunk.oldEnd;
  let anchors = anchorsOf.get(hunk);
  if (anchors === undefined) anchorsOf.set(hunk, (anchors = new Set(hunk.removed.map(lineAnchor))));
  return anchors.has(anchorIn(finding)?.line ?? '');
}
