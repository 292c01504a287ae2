// Decides which findings are new compared with a baseline. Each step handles only the findings that earlier steps
// left unmatched:
//   1. the same fingerprint and, without a line of source text, the same message: on unchanged lines first, then the
//      nearest to the line to which git says the old one moved
//   2. the same kind (file, rule, and message with digits masked) in the same changed part of the file, which is git's
//      hunk; without git, with the same flagged text
//   3. the same kind anywhere in the file, if the message contains a number, or if its line has most words of a line
//      that the changes removed. The first kind is about a size, and each change of a long line or function changes
//      its text; the second moved and was edited.
// The same flagged text is preferred, then the line with most words in common, then the same hunk, then the nearest.
// Each entry matches only once, so one more finding of the same kind is new. Occurrence numbers are ignored, because
// they differ in a filtered report. The time is linear, even for 100,000 equal findings.
import { anchorIn, hasLineText } from '../document/extension.ts';
import { isOurs, masked } from '../document/fingerprint.ts';
import type { Finding } from '../document/report-schema.ts';
import { type BaselineEntry, isNeverBaselined } from './baseline.ts';
import { type Hunk, hunkAt, oldPosition, type SourceChanges, UNKNOWN } from './source-changes.ts';

export interface Known {
  readonly entry: BaselineEntry;
  /** 'text' is the same kind with the same flagged text, 'kind' without it. */
  readonly by: 'fingerprint' | 'text' | 'kind';
}

/** With `textOnly`, findings of the same kind match only if their flagged text is the same, too. */
export function matchFindings(
  entries: readonly BaselineEntry[],
  findings: readonly Finding[],
  changes?: SourceChanges,
  textOnly = false,
) {
  const known = new Map<Finding, Known>();
  const used = new Set<BaselineEntry>();
  const hunksOf = ({ location: { path = '' } }: Finding) => changes?.hunksIn(path) ?? [];
  const pairAll = (keyOf: (finding: Finding) => string, costOf: Cost, by?: Known['by']) => {
    const free = entries.filter((entry) => !used.has(entry));
    const old = Map.groupBy(free, ({ finding }) => keyOf(finding));
    const rest = findings.filter((finding) => !known.has(finding));
    for (const [key, group] of Map.groupBy(rest, keyOf)) {
      const same = old.get(key);
      if (same === undefined) continue;
      const isAccepted = same.some(({ accepted }) => accepted !== undefined);
      const allowed = group.filter((finding) => isAccepted || !isNeverBaselined(finding));
      const before = same.map((entry) => oldSpot(entry, hunksOf(entry.finding)));
      const now = allowed.map((finding) => newSpot(finding, hunksOf(finding)));
      for (const [{ entry }, { finding }, cost] of byCost(before, now, costOf)) {
        if (used.has(entry) || known.has(finding)) continue;
        known.set(finding, { entry, by: by ?? (cost < OTHER_TEXT ? 'text' : 'kind') });
        used.add(entry);
      }
    }
  };
  pairAll(({ fingerprint }) => fingerprint, placeCost, 'fingerprint');
  pairAll(kindOf, (old, now) => kindCost(old, now, changes, textOnly));
  return { known, missing: entries.filter((entry) => !used.has(entry)) };
}

export const kindOf = ({ ruleId, message, location }: Finding): string =>
  JSON.stringify([location.path, ruleId, masked(message)]);

interface Spot {
  readonly finding: Finding;
  /** The hash of the flagged text. */
  readonly text: string | undefined;
  readonly line: number | undefined;
  readonly column: number;
  readonly hunks: readonly Hunk[];
  /** With masked digits. */
  readonly message: string;
  /** The words of its line, if the line is in a changed part. */
  readonly words: ReadonlySet<string>;
}

type OldSpot = Spot & { readonly entry: BaselineEntry };

function newSpot(finding: Finding, hunks: readonly Hunk[]): Spot {
  const { line, column = 0 } = finding.location;
  const inside = hunkAt(hunks, line);
  const changedLine = inside && finding.codeSnippet;
  return { ...spotOf(finding, changedLine), line, column, hunks: inside === undefined ? [] : [inside] };
}

function oldSpot(entry: BaselineEntry, hunks: readonly Hunk[]): OldSpot {
  const { finding } = entry;
  const { line, column = 0 } = finding.location;
  const { removed, ...position } = oldPosition(hunks, line, anchorIn(finding)?.line);
  return { ...spotOf(finding, removed), column, ...position, entry };
}

function spotOf(finding: Finding, changedLine = '') {
  const words = new Set(changedLine.match(/[\p{L}\p{N}_$]+/gu));
  return { finding, text: anchorIn(finding)?.flagged, message: masked(finding.message), words };
}

/** Added to the cost of a pair, which is otherwise a distance in lines and columns. */
const OTHER_TEXT = 1e8;
const OTHER_HUNK = 1e7;
const UNKNOWN_LINE = 1e6;

/** Returns `undefined` for a pair that could be two findings. */
type Cost = (old: Spot, now: Spot) => number | undefined;

function distance(old: Spot, now: Spot): number {
  if (old.line === undefined || now.line === undefined) return UNKNOWN_LINE;
  return Math.min(UNKNOWN_LINE, Math.abs(old.line - now.line) + Math.abs(old.column - now.column) / 1e4);
}

function placeCost(old: Spot, now: Spot): number | undefined {
  const isOtherMessage = old.message !== now.message;
  const isBare = !hasLineText(old.finding) && !hasLineText(now.finding);
  // The linter's id of the message may be all that the fingerprint has.
  if (isOtherMessage && isBare && isOurs(now.finding)) return undefined;
  return (isOtherMessage ? OTHER_TEXT : 0) + distance(old, now) + (now.hunks.length > 0 ? OTHER_HUNK : 0);
}

function kindCost(old: Spot, now: Spot, changes: SourceChanges | undefined, textOnly: boolean): number | undefined {
  const isSameText = old.text !== undefined && old.text === now.text;
  const isSameHunk = now.hunks.some((hunk) => old.hunks.includes(hunk));
  // If the baseline was made from uncommitted changes, the commit does not have the old line.
  const isUnknown =
    changes?.note !== undefined || now.hunks.includes(UNKNOWN) || (old.line === undefined && now.hunks.length > 0);
  const isAllowed = textOnly || changes === undefined ? isSameText : isSameHunk || (isSameText && isUnknown);
  if (!isAllowed && (textOnly || !(now.message !== now.finding.message || similarity(old.words, now.words) > SIMILAR)))
    return undefined;
  const otherWords = OTHER_TEXT * (1 - similarity(old.words, now.words));
  return (isSameText ? 0 : OTHER_TEXT + otherWords) + (isSameHunk ? 0 : OTHER_HUNK) + distance(old, now);
}

/** More pairs than this are not compared: the entries and the findings are paired in their order. */
const PAIRS_MAX = 250_000;

function byCost(before: readonly OldSpot[], now: readonly Spot[], costOf: Cost) {
  const byLine = (a: Spot, b: Spot) => (a.line ?? 0) - (b.line ?? 0) || a.column - b.column;
  const [from, to] = [before.toSorted(byLine), now.toSorted(byLine)] as const;
  const isSmall = from.length * to.length <= PAIRS_MAX;
  const pairs = from.flatMap((old, index) =>
    (isSmall ? to : to.slice(index, index + 1)).flatMap((one) => {
      const cost = costOf(old, one);
      return cost === undefined ? [] : [[old, one, cost] as const];
    }),
  );
  return pairs.sort(([, , one], [, , other]) => one - other);
}

/** Two declarations or calls of different names have fewer words in common. */
const SIMILAR = 2 / 3;

/** Returns the share of the words that both lines have. */
function similarity(one: ReadonlySet<string>, other: ReadonlySet<string>): number {
  const common = [...one].filter((word) => other.has(word)).length;
  return common === 0 ? 0 : (2 * common) / (one.size + other.size);
}
