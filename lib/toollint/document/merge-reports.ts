// Merges reports from shards, packages or linters. A finding that several reports share appears once. Reports from
// different tools become a toollint report that names their linters.
import { buildReport, ownTool, UNKNOWN_SCOPE } from './build-report.ts';
import { countIn, type Linter, lintersOf, ruleTextsOf } from './extension.ts';
import { ReportFailure } from './failure.ts';
import { literalGlob } from './file-pattern.ts';
import { compareFindings } from './file-findings.ts';
import { byCodeUnits, sortedUnique } from './report-path.ts';
import type { Finding, Report, Scan } from './report-schema.ts';

export type NamedReport = { readonly name: string; readonly report: Report };

export function mergeReports(parts: readonly NamedReport[]): Report {
  const [first] = parts;
  if (first === undefined) throw new ReportFailure('input', 'there is nothing to merge');
  for (const [index, part] of parts.entries()) for (const other of parts.slice(0, index + 1)) checkFits(other, part);
  if (parts.length === 1) return first.report;
  const scanned = parts.map(({ report }) => report).filter(({ execution }) => execution.status !== 'no-files');
  const reports = scanned.length === 0 ? [first.report] : scanned;
  const merged = buildReport({
    tool: mergedTool(parts.map(({ report }) => report.tool)),
    scan: mergedScan(reports.map(({ scan }) => scan)),
    findings: distinctFindings(reports.map((report) => report.findings)).sort(compareFindings),
    diagnostics: distinct(reports.flatMap(({ execution }) => execution.diagnostics)),
    totalFiles: totalFiles(reports),
    suppressed: parts.reduce((sum, { report }) => sum + countIn(report.summary, 'suppressed'), 0),
  });
  return { ...merged, selection: { quiet: first.report.selection.quiet } };
}

function checkFits({ report: first, name: firstName }: NamedReport, { report, name }: NamedReport): void {
  const refuse = (fault: string): never => {
    const other = firstName === name ? '' : ` with ${firstName}`;
    throw new ReportFailure('input', `${name} cannot be merged${other}: ${fault}`);
  };
  if (report.selection.baseline !== undefined) refuse('it lists only what was new against a baseline');
  if (report.scan.profile !== first.scan.profile) refuse('its profile is another one');
  if (report.selection.quiet !== first.selection.quiet) refuse('one of them lists errors only');
  const [one, two] = [toolsOf(first), toolsOf(report)];
  if (one.versions === two.versions) return;
  if (one.names === two.names) refuse(`it is of ${two.versions}, not of ${one.versions}`);
  // If two linters share a rule id, a finding would not show which of them reported it.
  const ruleIds = new Set(first.findings.map(({ ruleId }) => ruleId));
  const shared = report.findings.find(({ ruleId }) => ruleIds.has(ruleId));
  if (shared !== undefined) refuse(`${one.names} and ${two.names} both have a rule ${shared.ruleId}`);
}

function toolsOf(report: Report) {
  const tools = [report.tool, ...lintersOf(report).filter(({ name }) => name !== report.tool.name)];
  const names = tools.map(({ name }) => name).join(' ');
  return { names, versions: tools.map(({ name, version }) => `${name} ${version}`).join(' ') };
}

/** Runs of one linter keep its name. Others become a tool of ours that lists their linters. */
export function mergedTool(tools: readonly Report['tool'][]): Report['tool'] {
  const linters = distinct(
    tools.flatMap((tool): Linter[] => {
      const own = lintersOf({ tool });
      return own.length === 0 ? [{ name: tool.name, version: tool.version }] : own;
    }),
  );
  const texts = Object.assign({}, ...tools.map((tool) => ruleTextsOf({ tool }))) as Record<string, string>;
  const rules = Object.keys(texts).length === 0 ? {} : { rules: texts };
  const isOne = tools.every(({ name }) => name === tools[0]?.name) && linters.length === 1;
  return isOne ? Object.assign({}, tools[0], rules) : ownTool({ linters, ...rules });
}

export function distinct<T extends object>(values: readonly T[]): T[] {
  const byText = new Map(values.map((value) => [JSON.stringify(value), value]));
  return [...byText].sort(([left], [right]) => byCodeUnits(left, right)).map(([, value]) => value);
}

/** If several lists contain equal findings, the list with the most of them decides how many are kept. */
export function distinctFindings(lists: readonly (readonly Finding[])[]): Finding[] {
  const most = new Map<string, Finding[]>();
  const keyOf = ({ fingerprint, message, location: { line, column } }: Finding) =>
    JSON.stringify([fingerprint, message, line, column]);
  for (const findings of lists)
    for (const [key, own] of Map.groupBy(findings, keyOf))
      if (own.length > (most.get(key)?.length ?? 0)) most.set(key, own);
  return [...most.values()].flat();
}

function totalFiles(reports: readonly Report[]): number {
  const areListed = reports.every(({ scan, summary }) => scan.include.length === summary.totalFiles);
  const listed = new Set(reports.flatMap(({ scan }) => scan.include));
  return areListed ? listed.size : reports.reduce((sum, { summary }) => sum + summary.totalFiles, 0);
}

/** Returns a known scope only if all scopes are known. Excludes a pattern only if all scans exclude it. */
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

function includedBy({ include, target }: Scan): readonly string[] {
  if (include.length > 0 || target === null) return include;
  if (target.kind === 'file') return [literalGlob(target.path)];
  return [target.path === '.' ? '**' : `${literalGlob(target.path)}/**`];
}
