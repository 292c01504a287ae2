// Which findings of a report are new against a baseline. Steps, each only over what the one before left:
//   1. same fingerprint and same line and column
//   2. same fingerprint, in the order of lines (line-alignment.ts chooses when there are more now)
//   3. same rule, path, line and message: the line was edited in place
// The rest of the current findings is new; the rest of the baseline may have been fixed (fixed-claims.ts).
//
// Findings are offered one by one and may come in any order: the answer does not depend on it. Occurrence numbers are
// never compared, since a filtered report numbers anew. Linear, also in one group of 100,000 equal findings.
// Known residue: two byte-identical lines that change places in one file are not told apart.
import { type BaselineEntry, isNeverBaselined, placeKeyOf } from './baseline.ts';
import type { Finding } from '../document/report-schema.ts';
import { alignLines } from './line-alignment.ts';

interface Deferred {
  readonly index: number;
  readonly placeKey: string;
  readonly line: number;
  readonly column: number;
}

interface Group {
  /** Entries that step 1 has not taken, by position. */
  readonly free: Map<string, BaselineEntry[]>;
  readonly deferred: Deferred[];
}

/** The outcome; indexes are those of `offer`. */
export interface MatchResult {
  isNew(index: number): boolean;
  readonly newIssues: number;
  readonly unchanged: number;
  /** Old findings without a counterpart. */
  readonly missing: BaselineEntry[];
}

/** Matches one stream of findings against baseline entries. */
export class FindingMatcher {
  readonly #groups = new Map<string, Group>();
  readonly #placeKeys = new Set<string>();
  readonly #loose: Deferred[] = [];
  #news = new Uint8Array(1024);
  #offered = 0;
  #unmatched = 0;
  #skipped = 0;

  constructor(entries: Iterable<BaselineEntry>) {
    for (const entry of entries) {
      let group = this.#groups.get(entry.fingerprint);
      if (group === undefined) this.#groups.set(entry.fingerprint, (group = { free: new Map(), deferred: [] }));
      const position = positionOf(entry.line, entry.column);
      const entriesThere = group.free.get(position);
      if (entriesThere === undefined) group.free.set(position, [entry]);
      else entriesThere.push(entry);
      this.#placeKeys.add(entry.placeKey);
    }
  }

  /** Takes the next finding; its index is the number of findings before it. */
  offer(finding: Finding): void {
    const index = this.#offered;
    this.#offered += 1;
    if (isNeverBaselined(finding)) return this.#markNew(index);
    const { line = 0, column = 0 } = finding.location;
    const group = this.#groups.get(finding.fingerprint);
    if (group?.free.get(positionOf(line, column))?.pop() !== undefined) return;
    const placeKey = placeKeyOf(finding);
    if (group === undefined && !this.#placeKeys.has(placeKey)) return this.#markNew(index);
    (group?.deferred ?? this.#loose).push({ index, placeKey, line, column });
  }

  /** Leaves the next finding out of the comparison; it is neither new nor unchanged. */
  skip(): void {
    this.#offered += 1;
    this.#skipped += 1;
  }

  /** All findings have been offered. */
  finish(): MatchResult {
    const left = [...this.#loose];
    const leftByPlace = new Map<string, BaselineEntry[]>();
    for (const group of this.#groups.values()) {
      const { current, before } = pairGroup(group);
      left.push(...current);
      for (const entry of before) {
        const samePlace = leftByPlace.get(entry.placeKey);
        if (samePlace === undefined) leftByPlace.set(entry.placeKey, [entry]);
        else samePlace.push(entry);
      }
    }
    for (const { index, placeKey } of left.sort(
      (a, b) => a.line - b.line || a.column - b.column || a.index - b.index,
    )) {
      if (leftByPlace.get(placeKey)?.pop() === undefined) this.#markNew(index);
    }
    const news = this.#news;
    return {
      isNew: (index) => news[index] === 1,
      newIssues: this.#unmatched,
      unchanged: this.#offered - this.#unmatched - this.#skipped,
      missing: [...leftByPlace.values()].flat(),
    };
  }

  #markNew(index: number): void {
    if (index >= this.#news.length) {
      const larger = new Uint8Array(Math.max(index + 1, this.#news.length * 2));
      larger.set(this.#news);
      this.#news = larger;
    }
    this.#news[index] = 1;
    this.#unmatched += 1;
  }
}

/** Step 2 in one group; what neither side could pair. */
function pairGroup({ free, deferred }: Group): { current: Deferred[]; before: BaselineEntry[] } {
  const before = [...free.values()].flat().sort((a, b) => a.line - b.line || a.column - b.column);
  if (deferred.length === 0) return { current: [], before };
  const current = deferred.sort((a, b) => a.line - b.line || a.column - b.column || a.index - b.index);
  const chosen = alignLines(
    before.map(({ line }) => line),
    current.map(({ line }) => line),
  );
  return { current: current.filter((_, index) => chosen[index] !== true), before: before.slice(current.length) };
}

function positionOf(line: number, column: number): string {
  return `${line}:${column}`;
}
