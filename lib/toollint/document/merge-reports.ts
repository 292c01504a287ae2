// Reports of parts of one scan, or of the packages of one repository, as one report. They must come from the same tool,
// linter and selection; a finding that two of them have is there once.
import { summaryOf, UNKNOWN_SCOPE } from './consistency.ts';
import { linterOf, ruleTextsOf } from './extension.ts';
import { ReportFailure } from './failure.ts';
import { literalGlob } from './file-pattern.ts';
import { compareFindings, numberOccurrences } from './finding-order.ts';
import { byCodeUnits, sortedUnique } from './report-path.ts';
import type { Finding, Report, Scan } from './report-schema.ts';

interface Named {
  readonly name: string;
  readonly report: Report;
}

/** Merges one or more. Throws ReportFailure ('input') when they do not belong together. */
export function mergeReports(parts: readonly Named[]): Report {
  const [first] = parts;
  if (first === undefined) throw new ReportFailure('input', 'there is nothing to merge');
  for (const part of parts) checkFits(first, part);
  if (parts.length === 1) return first.report;
  const scanned = parts.map(({ report }) => report).filter(({ execution }) => execution.status !== 'no-files');
  const reports = scanned.length === 0 ? [first.report] : scanned;
  const findings = distinctFindings(reports).sort(compareFindings);
  numberOccurrences(findings);
  const diagnostics = distinct(reports.flatMap(({ execution }) => execution.diagnostics));
  const rules = Object.assign({}, ...reports.map(ruleTextsOf)) as Record<string, string>;
  const tool = Object.keys(rules).length === 0 ? first.report.tool : { ...first.report.tool, rules };
  const status = scanned.length === 0 ? 'no-files' : diagnostics.length > 0 ? 'incomplete' : 'complete';
  return {
    schemaVersion: first.report.schemaVersion,
    tool,
    execution: { status, diagnostics },
    scan: mergedScan(reports.map(({ scan }) => scan)),
    selection: { quiet: first.report.selection.quiet },
    gate: { status: 'not-evaluated' },
    summary: summaryOf(totalFiles(reports), findings, diagnostics),
    findings,
  };
}

function checkFits({ report: first, name: firstName }: Named, { report, name }: Named): void {
  const refuse = (fault: string): never => {
    const other = firstName === name ? '' : ` with ${firstName}`;
    throw new ReportFailure('input', `${name} cannot be merged${other}: ${fault}`);
  };
  const identity = (one: Report) => {
    const linter = linterOf(one);
    const parts = [one.tool.name, one.tool.version, linter?.name, linter?.version];
    return parts.filter((part) => part !== undefined).join(' ');
  };
  if (report.selection.baseline !== undefined) refuse('it lists only what was new against a baseline');
  if (identity(report) !== identity(first)) refuse(`it is of ${identity(report)}, not of ${identity(first)}`);
  if (report.scan.profile !== first.scan.profile) refuse('its profile is another one');
  if (report.selection.quiet !== first.selection.quiet) refuse('one of them lists errors only');
}

function distinct<T extends object>(values: readonly T[]): T[] {
  return [...new Map(values.map((value) => [JSON.stringify(value), value])).entries()]
    .sort(([left], [right]) => byCodeUnits(left, right))
    .map(([, value]) => value);
}

/** Of equal findings as many as the report has that has the most of them. */
function distinctFindings(reports: readonly Report[]): Finding[] {
  const most = new Map<string, Finding[]>();
  for (const { findings } of reports) {
    const own = Map.groupBy(findings, ({ fingerprint, location }) =>
      JSON.stringify([fingerprint, location.line, location.column]),
    );
    for (const [key, list] of own) if (list.length > (most.get(key)?.length ?? 0)) most.set(key, list);
  }
  return [...most.values()].flat().map((finding) => ({ ...finding }));
}

/** Files that two reports list count once. */
function totalFiles(reports: readonly Report[]): number {
  const areListed = reports.every(({ scan, summary }) => scan.include.length === summary.totalFiles);
  return areListed
    ? new Set(reports.flatMap(({ scan }) => scan.include)).size
    : reports.reduce((sum, { summary }) => sum + summary.totalFiles, 0);
}

/** Known only if all are known. What only some of them leave out is not left out. */
function mergedScan(scans: readonly Scan[]): Scan {
  const [first] = scans as [Scan, ...Scan[]];
  const timestamp = scans.map((scan) => scan.timestamp).sort(byCodeUnits)[0] ?? '';
  const durationMs = scans.reduce((sum, scan) => sum + scan.durationMs, 0);
  const common = { timestamp, durationMs, profile: first.profile };
  if (!scans.every(({ scopeKnown }) => scopeKnown)) return { ...UNKNOWN_SCOPE, ...common };
  const isSame = scans.every(({ target }) => JSON.stringify(target) === JSON.stringify(first.target));
  return {
    scopeKnown: true,
    target: isSame ? first.target : { kind: 'project', path: '.' },
    ...common,
    enabledRuleIds: sortedUnique(scans.flatMap(({ enabledRuleIds }) => enabledRuleIds)),
    include: sortedUnique(scans.flatMap(includedBy)),
    exclude: first.exclude.filter((glob) => scans.every(({ exclude }) => exclude.includes(glob))),
  };
}

/** What a scan looked at, as patterns below the root. */
function includedBy({ include, target }: Scan): readonly string[] {
  if (include.length > 0 || target === null) return include;
  if (target.kind === 'file') return [literalGlob(target.path)];
  return [target.path === '.' ? '**' : `${literalGlob(target.path)}/**`];
}
