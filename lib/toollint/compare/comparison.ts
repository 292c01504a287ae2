// Compares findings with a baseline: they are new, unchanged, fixed, or not verifiable.
import { ENGINE_RULE } from '../document/report-format.ts';
import { isLiteralGlob, literalGlob, matchesAny } from '../document/file-pattern.ts';
import { isUnder } from '../document/report-path.ts';
import type { BaselineCounts, Finding, ReportHeader } from '../document/report-schema.ts';
import type { Baseline, BaselineEntry } from './baseline.ts';
import { matchFindings } from './finding-match.ts';
import type { SourceChanges } from './source-changes.ts';

export type Comparison = Awaited<ReturnType<typeof compareWith>>;

/** Returns a function that returns the reason why a missing entry may not be fixed. Without a reason, it is fixed. */
export type DoubtsOf = (missing: readonly BaselineEntry[]) => Promise<(entry: BaselineEntry) => string | undefined>;

/** If the baseline contains only errors, all other findings are ignored. */
export async function compareWith(
  { entries, errorsOnly }: Pick<Baseline, 'entries' | 'errorsOnly'>,
  findings: readonly Finding[],
  doubtsOf: DoubtsOf,
  changes?: SourceChanges,
) {
  const compared = errorsOnly ? findings.filter(({ severity }) => severity === 'error') : findings;
  const { known, missing } = matchFindings(entries, compared, changes);
  const doubtOf = await doubtsOf(missing);
  return {
    news: compared.filter((finding) => !known.has(finding)),
    unchanged: compared.filter((finding) => known.has(finding)),
    known,
    fixed: missing.filter((entry) => doubtOf(entry) === undefined),
    notVerifiable: missing.filter((entry) => doubtOf(entry) !== undefined),
    doubtOf,
  };
}

/** `notVerifiable` extends the specification and is absent if it is 0. */
export function countsOf({ news, unchanged, fixed, notVerifiable }: Comparison): BaselineCounts {
  const counts = { newIssues: news.length, unchanged: unchanged.length, fixed: fixed.length };
  return notVerifiable.length === 0 ? counts : Object.assign(counts, { notVerifiable: notVerifiable.length });
}

/** Decides from the report alone: a finding was fixed if the report covers its file and its rule. */
export function doubtsIn(
  current: Pick<ReportHeader, 'scan' | 'execution' | 'selection'>,
  deleted: ReadonlySet<string> = new Set(),
): (entry: BaselineEntry) => string | undefined {
  const { scan, execution, selection } = current;
  const { diagnostics } = execution;
  const { target } = scan;
  if (!scan.scopeKnown || target === null)
    return () => 'the report does not list the files and rules that were checked';
  if (execution.status === 'no-files') return () => 'no files were analyzed';
  const enabled = new Set([...scan.enabledRuleIds, ENGINE_RULE]);
  const { 'parse-error': unparsed = [], 'rule-error': failed = [] } = Object.groupBy(diagnostics, ({ kind }) => kind);
  const ruleFailed = (id: string, path: string) =>
    failed.some(({ ruleId = id, relativePath = path }) => ruleId === id && relativePath === path);
  // The path of a folder that cannot be read stands for all files in it.
  const isUnparsed = (path: string) =>
    unparsed.some(({ relativePath }) => relativePath !== undefined && isUnder(path, relativePath));
  // toollint's own scans list their files, so most patterns are literal.
  const listed = new Set(scan.include);
  const patterns = scan.include.filter((glob) => !isLiteralGlob(glob));
  const isIncluded = (path: string) =>
    scan.include.length === 0 || listed.has(literalGlob(path)) || matchesAny(path, patterns);
  const inScope = (path: string) => {
    const inTarget = target.kind === 'file' ? path === target.path : isUnder(path, target.path);
    return inTarget && (isIncluded(path) || deleted.has(path)) && !matchesAny(path, scan.exclude);
  };
  return ({ finding: { ruleId, severity, location } }) => {
    const { scope, path = '' } = location;
    if (!enabled.has(ruleId)) return `the rule ${ruleId} is off`;
    if (selection.quiet && severity !== 'error') return 'the report lists errors only';
    if (ruleFailed(ruleId, path)) return `the rule ${ruleId} failed`;
    if (scope === 'project') return target.kind === 'project' ? undefined : 'only one file was analyzed';
    if (isUnparsed(path)) return 'the file does not parse';
    return inScope(path) ? undefined : 'the file was not analyzed';
  };
}
