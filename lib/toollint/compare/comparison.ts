// Findings against a baseline: what is new, what is as it was, what was fixed, and what cannot be known.
import { literalGlob, matchesAny } from '../document/file-pattern.ts';
import { isUnder } from '../document/report-path.ts';
import type { BaselineCounts, Finding, ReportHeader } from '../document/report-schema.ts';
import type { Baseline, BaselineEntry } from './baseline.ts';
import { matchFindings } from './finding-match.ts';
import type { SourceChanges } from './source-changes.ts';

/** The outcome. Every entry of the baseline is unchanged, fixed or not verifiable. */
export interface Comparison {
  readonly news: readonly Finding[];
  readonly unchanged: readonly Finding[];
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

/**
 * Decides for each missing baseline finding whether it counts as fixed, by what the report says of its scan. (A running
 * scan knows more.) The file may not have been looked at, the rule may be off, the file may not parse: only what the
 * current report has verifiably looked at counts.
 */
export function fixedClaims(
  current: Pick<ReportHeader, 'scan' | 'execution' | 'selection'>,
  deleted: ReadonlySet<string> = new Set(),
): (finding: Finding) => boolean {
  const { scan, execution, selection } = current;
  const { target } = scan;
  if (!scan.scopeKnown || target === null || execution.status === 'no-files') return () => false;
  const enabled = new Set(scan.enabledRuleIds);
  const unparsed = execution.diagnostics.filter(({ kind }) => kind === 'parse-error');
  const failed = execution.diagnostics.filter(({ kind }) => kind === 'rule-error');
  const ruleFailed = (id: string, path: string) =>
    failed.some(({ ruleId = id, relativePath = path }) => ruleId === id && relativePath === path);
  // A folder that could not be listed counts for everything in it.
  const isUnparsed = (path: string) =>
    unparsed.some(({ relativePath }) => relativePath !== undefined && isUnder(path, relativePath));
  // Our own scans list their files, so most of the patterns are literal.
  const listed = new Set(scan.include);
  const patterns = scan.include.filter((glob) => /(?<!\\)[*?{[(]/u.test(glob));
  const isIncluded = (path: string) =>
    scan.include.length === 0 || listed.has(literalGlob(path)) || matchesAny(path, patterns);
  const inScope = (path: string) => {
    const inTarget = target.kind === 'file' ? path === target.path : isUnder(path, target.path);
    return inTarget && (isIncluded(path) || deleted.has(path)) && !matchesAny(path, scan.exclude);
  };
  return ({ ruleId, severity, location: { scope, path = '' } }) => {
    if (!enabled.has(ruleId) || (selection.quiet && severity !== 'error') || ruleFailed(ruleId, path)) return false;
    if (scope === 'project') return target.kind === 'project';
    return !isUnparsed(path) && inScope(path);
  };
}
