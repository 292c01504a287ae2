// Findings against a baseline: what is new, what is as it was, what was fixed, and what cannot be known.
import type { BaselineCounts, Finding } from '../document/report-schema.ts';
import type { Baseline, BaselineEntry } from './baseline.ts';
import { matchFindings } from './finding-match.ts';
import type { SourceChanges } from './source-changes.ts';

/** The outcome. Every entry of the baseline is unchanged, fixed or not verifiable. */
export interface Comparison {
  readonly news: readonly Finding[];
  readonly unchanged: readonly Finding[];
  /** The entries that know the unchanged findings, in their order. */
  readonly knownBy: readonly BaselineEntry[];
  readonly fixed: readonly BaselineEntry[];
  /** Gone, but nothing has verifiably looked. */
  readonly notVerifiable: readonly BaselineEntry[];
}

/** Which of the findings that are gone were fixed. */
export type FixedClaims = (missing: readonly BaselineEntry[]) => Promise<ReadonlySet<BaselineEntry>>;

/** Compares. With a baseline of errors only, other findings are neither new nor unchanged. */
export async function compareWith(
  { entries, errorsOnly }: Pick<Baseline, 'entries' | 'errorsOnly'>,
  findings: readonly Finding[],
  claims: FixedClaims,
  changes?: SourceChanges,
): Promise<Comparison> {
  const compared = errorsOnly ? findings.filter(({ severity }) => severity === 'error') : findings;
  const { knownBy, missing } = matchFindings(entries, compared, changes);
  const fixed = await claims(missing);
  return {
    news: compared.filter((_, index) => knownBy[index] === undefined),
    unchanged: compared.filter((_, index) => knownBy[index] !== undefined),
    knownBy: knownBy.filter((entry) => entry !== undefined),
    fixed: missing.filter((entry) => fixed.has(entry)),
    notVerifiable: missing.filter((entry) => !fixed.has(entry)),
  };
}

/**
 * The member of the report. `notVerifiable` is beyond the specification and left out where it is 0: with it, the counts
 * but for `newIssues` add up to the baseline.
 */
export function countsOf({ news, unchanged, fixed, notVerifiable }: Comparison): BaselineCounts {
  const counts = { newIssues: news.length, unchanged: unchanged.length, fixed: fixed.length };
  return notVerifiable.length === 0 ? counts : Object.assign(counts, { notVerifiable: notVerifiable.length });
}
