// When a finding that is gone from a report may be called fixed, by what the report says of its scan. (A running scan
// knows more.) Gone is not fixed: the file may not have been looked at, the rule may be off, the file may not parse.
// Only what the current report has verifiably looked at counts; the rest is "not verifiable".
import { literalGlob, matchesAny } from '../document/file-pattern.ts';
import type { Finding, ReportHeader } from '../document/report-schema.ts';
import { isUnder } from '../document/report-path.ts';

/** Decides for each missing baseline finding whether it counts as fixed. */
export function fixedClaims(
  current: Pick<ReportHeader, 'scan' | 'execution' | 'selection'>,
  deleted: ReadonlySet<string> = new Set(),
): (finding: Finding) => boolean {
  const { scan, execution, selection } = current;
  const { target } = scan;
  if (!scan.scopeKnown || target === null || execution.status === 'no-files') return () => false;
  const enabled = new Set(scan.enabledRuleIds);
  const unparsed = new Set<string>();
  const failedRules = new Set<string>();
  for (const { kind, ruleId, relativePath } of execution.diagnostics) {
    if (kind === 'parse-error' && relativePath !== undefined) unparsed.add(relativePath);
    if (kind === 'rule-error') failedRules.add(JSON.stringify([ruleId ?? null, relativePath ?? null]));
  }
  const ruleFailed = (ruleId: string, path: string) =>
    [
      [ruleId, path],
      [ruleId, null],
      [null, path],
      [null, null],
    ].some((pair) => failedRules.has(JSON.stringify(pair)));
  // A folder that could not be listed counts for everything in it.
  const isUnparsed = (path: string) => {
    if (unparsed.size === 0) return false;
    for (let end = path.length; end > 0; end = path.lastIndexOf('/', end - 1))
      if (unparsed.has(path.slice(0, end))) return true;
    return false;
  };
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
