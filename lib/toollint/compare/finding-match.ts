// Decides which findings are new compared with a baseline. Each step handles only the findings that earlier steps
// left unmatched:
//   1. the same fingerprint at the same line and column, or at the line to which git says the old line moved
//   2. the same fingerprint: findings on unchanged lines first, then in the order of lines
//   3. the same kind (file, rule, and message with digits masked) in the same changed part of the file, which is git's
//      hunk; without git, with the same flagged text
//   4. the same kind anywhere in the file, if the message contains a number: such a finding is about a size, and each
//      change of a long line or function changes its text. The same flagged text is preferred, then the same hunk,
//      then the nearest.
// Each entry matches only once, so one more finding of the same kind is new.
//
// The result does not depend on the order of the findings. Occurrence numbers are ignored, because they differ in a
// filtered report. The time is linear, even for 100,000 equal findings.
import { anchorIn } from '../document/extension.ts';
import { lineAnchor, masked } from '../document/fingerprint.ts';
import type { Finding } from '../document/report-schema.ts';
import { isNeverBaselined } from './baseline.ts';
import type { BaselineEntry } from './baseline-file.ts';
import { type Hunk, hunkAt, lineNow, type SourceChanges } from './source-changes.ts';

export interface Known {
  readonly entry: BaselineEntry;
  /** 'text' is the same kind with the same flagged text, 'kind' without it. */
  readonly by: 'fingerprint' | 'text' | 'kind';
}

interface Current {
  readonly index: number;
  readonly finding: Finding;
}

type Pair = (current: Current, entry: BaselineEntry, by: Known['by']) => void;

interface MatchOptions {
  readonly changes?: SourceChanges | undefined;
  /** Findings of the same kind match only if their flagged text is the same, too. */
  readonly textOnly?: boolean;
}

export function matchFindings(
  entries: readonly BaselineEntry[],
  findings: readonly Finding[],
  options: MatchOptions = {},
) {
  const knownBy: (Known | undefined)[] = findings.map(() => undefined);
  const found = new Set<BaselineEntry>();
  const pair: Pair = ({ index }, entry, by) => {
    knownBy[index] = { entry, by };
    found.add(entry);
  };
  const known = Map.groupBy(entries, ({ finding }) => finding.fingerprint);
  const now = Map.groupBy(findings.keys(), (index) => (findings[index] as Finding).fingerprint);
  for (const [fingerprint, group] of known) {
    const isAccepted = group.some(({ accepted }) => accepted !== undefined);
    const current = (now.get(fingerprint) ?? []).map((index) => ({ index, finding: findings[index] as Finding }));
    const comparable = current.filter(({ finding }) => isAccepted || !isNeverBaselined(finding));
    pairGroup(group, comparable, options.changes, pair);
  }
  const left = Map.groupBy(
    entries.filter((entry) => !found.has(entry)),
    ({ finding }) => kindOf(finding),
  );
  const rest = findings.flatMap((finding, index) => (knownBy[index] === undefined ? [{ finding, index }] : []));
  for (const [kind, current] of Map.groupBy(rest, ({ finding }) => kindOf(finding))) {
    const old = left.get(kind);
    if (old !== undefined && !isNeverBaselined(current[0]?.finding ?? { ruleId: '' }))
      pairNearest(old, current, options, pair);
  }
  return { knownBy, missing: entries.filter((entry) => !found.has(entry)) };
}

/** What a report shows of a finding apart from its place in the file. */
export function kindOf({ ruleId, message, location }: Finding): string {
  return JSON.stringify([location.path, ruleId, masked(message)]);
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
    if (entry !== undefined) pair(one, entry, 'fingerprint');
    return entry === undefined;
  });
  const byLine = (a: Finding, b: Finding) =>
    (a.location.line ?? 0) - (b.location.line ?? 0) || (a.location.column ?? 0) - (b.location.column ?? 0);
  const left = [...free.values()].flat().sort((a, b) => byLine(a.finding, b.finding));
  const rest = moved.sort((a, b) => byLine(a.finding, b.finding));
  for (const [index, one] of chooseOld(left, rest, changes).entries()) {
    const entry = left[index];
    if (entry !== undefined) pair(one, entry, 'fingerprint');
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

/** More candidates than this are paired in their order. */
const CANDIDATES_MAX = 250_000;
/** Costs of a pair; a distance of lines is smaller. */
const OTHER_TEXT = 1e8;
const OTHER_HUNK = 1e7;
const UNKNOWN_LINE = 1e6;

/** Pairs entries and findings of one kind. */
function pairNearest(
  entries: readonly BaselineEntry[],
  current: readonly Current[],
  options: MatchOptions,
  pair: Pair,
): void {
  const { message, location } = (current[0] as Current).finding;
  const isMeasure = masked(message) !== message;
  const hunks = options.changes?.hunksIn(location.path ?? '') ?? [];
  const before = entries.map(({ finding }) => oldSpot(finding, hunks));
  const now = current.map(({ finding }) => newSpot(finding, hunks));
  const isSmall = entries.length * current.length <= CANDIDATES_MAX;
  const candidates = before.flatMap((old, from) =>
    (isSmall ? [...now.keys()] : [from].slice(0, now.length - from)).flatMap((to) => {
      const cost = costOf(old, now[to] as Spot, isMeasure, options);
      return cost === undefined ? [] : [{ from, to, cost }];
    }),
  );
  const used = { before: new Set<number>(), now: new Set<number>() };
  for (const { from, to, cost } of candidates.sort((a, b) => a.cost - b.cost || a.to - b.to || a.from - b.from)) {
    if (used.before.has(from) || used.now.has(to)) continue;
    used.before.add(from);
    used.now.add(to);
    pair(current[to] as Current, entries[from] as BaselineEntry, cost < OTHER_TEXT ? 'text' : 'kind');
  }
}

interface Spot {
  readonly text: string | undefined;
  /** In the current file. */
  readonly line: number | undefined;
  /** The changed parts that may contain it. */
  readonly hunks: readonly Hunk[];
}

function newSpot(finding: Finding, hunks: readonly Hunk[]): Spot {
  const { line } = finding.location;
  const hunk = hunkAt(hunks, line ?? 0);
  return { text: anchorIn(finding)?.flagged, line, hunks: hunk === undefined ? [] : [hunk] };
}

/** An entry of a baseline file has no line, but its anchor finds the line among those that a hunk removed. */
function oldSpot(finding: Finding, hunks: readonly Hunk[]): Spot {
  const anchor = anchorIn(finding);
  const { line } = finding.location;
  const place = line === undefined ? undefined : lineNow(hunks, line);
  if (typeof place === 'number') return { text: anchor?.flagged, line: place, hunks: [] };
  const inside = place === undefined ? hunks.filter((hunk) => removes(hunk, anchor?.line)) : [place];
  return { text: anchor?.flagged, line: inside[0]?.newStart, hunks: inside };
}

/** Returns `undefined` for a pair that could be two findings. */
function costOf(old: Spot, now: Spot, isMeasure: boolean, { changes, textOnly }: MatchOptions): number | undefined {
  const isSameText = old.text !== undefined && old.text === now.text;
  const isSameHunk = now.hunks.some((hunk) => old.hunks.includes(hunk));
  // If the baseline was made from uncommitted changes, the commit does not have the old line.
  const isUncommitted = old.line === undefined && now.hunks.length > 0;
  const isAllowed =
    textOnly === true || changes === undefined ? isSameText : isSameHunk || (isSameText && isUncommitted);
  if (!isAllowed && (textOnly === true || !isMeasure)) return undefined;
  const hasLines = old.line !== undefined && now.line !== undefined;
  const distance = hasLines ? Math.min(UNKNOWN_LINE, Math.abs(old.line - now.line)) : UNKNOWN_LINE;
  return (isSameText ? 0 : OTHER_TEXT) + (isSameHunk ? 0 : OTHER_HUNK) + distance;
}

const anchorsOf = new WeakMap<Hunk, ReadonlySet<string>>();

function removes(hunk: Hunk, anchor = ''): boolean {
  let anchors = anchorsOf.get(hunk);
  if (anchors === undefined) anchorsOf.set(hunk, (anchors = new Set(hunk.removed.map(lineAnchor))));
  return anchors.has(anchor);
}
