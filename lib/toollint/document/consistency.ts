// Checks the invariants of a report beyond the schema. A contradiction is reported once, at the member that is most
// likely wrong: invariant 3 (the sum) is not checked because it follows from 1 and 2, and an invalid count (4) is not
// compared further. Invariants 13, 17, 19 and 21 apply only to scans by toollint.
import { pathFault, isUnder } from './report-path.ts';
import { SEVERITIES, TOOL_NAME } from './report-format.ts';
import type { Diagnostic, Finding, Report, Severity } from './report-schema.ts';

/** Rule ids that no configuration enables: for files that do not parse, and for ESLint's own messages. */
export const PARSE_ERROR_RULE = 'PARSE-ERROR';
export const ENGINE_RULE = 'eslint/core';
const ENGINE_PREFIX = 'eslint/';

export function isReserved(ruleId: string): boolean {
  return ruleId === PARSE_ERROR_RULE || ruleId.startsWith(ENGINE_PREFIX);
}

/** Receives the number of the invariant, a JSON Pointer and a message. */
export type InvariantSink = (number: number, pointer: string, message: string) => void;

const OWN_INVARIANTS: ReadonlySet<number> = new Set([13, 17, 19, 21]);

export function checkConsistency(report: Report, tell: InvariantSink): void {
  const isOwn = report.tool.name === TOOL_NAME;
  const sink: InvariantSink = (number, pointer, message) => {
    if (isOwn || !OWN_INVARIANTS.has(number)) tell(number, pointer, message);
  };
  checkFindings(report, sink);
  checkCounts(report, sink);
  checkStatus(report, sink);
  checkPaths(report, sink);
  checkScope(report, sink);
  checkBaseline(report, sink);
  const { gate, execution, tool } = report;
  if ((gate.status === 'passed' || gate.status === 'warning') && execution.status !== 'complete') {
    sink(22, '/gate/status', `the gate cannot be '${gate.status}' when the execution is '${execution.status}'`);
  }
  if (tool.name === '') sink(23, '/tool/name', 'the name is empty');
  if (tool.version === '') sink(23, '/tool/version', 'the version is empty');
}

export function countSeverities(findings: readonly Finding[]): Record<Severity, number> {
  const counts = { error: 0, warning: 0, info: 0 };
  for (const { severity } of findings) counts[severity] += 1;
  return counts;
}

export function countKind(diagnostics: readonly Diagnostic[], kind: Diagnostic['kind']): number {
  return diagnostics.filter((diagnostic) => diagnostic.kind === kind).length;
}

export const UNKNOWN_SCOPE = { scopeKnown: false, target: null, enabledRuleIds: [], include: [], exclude: [] };

export function summaryOf(
  totalFiles: number,
  findings: readonly Finding[],
  diagnostics: readonly Diagnostic[],
): Report['summary'] {
  return {
    totalFiles,
    totalIssues: findings.length,
    parseErrors: countKind(diagnostics, 'parse-error'),
    ruleErrors: countKind(diagnostics, 'rule-error'),
    bySeverity: countSeverities(findings),
  };
}

function checkFindings({ findings, scan, selection }: Report, sink: InvariantSink): void {
  const seen = new Map<string, { count: number; first: Finding }>();
  const enabled = new Set(scan.enabledRuleIds);
  for (const [index, finding] of findings.entries()) {
    const at = `/findings/${index}`;
    const { ruleId, severity } = finding;
    checkIdentity(finding, at, seen, sink);
    checkLocation(finding, at, scan.target, sink);
    if (ruleId === '') sink(23, `${at}/ruleId`, 'the rule id is empty');
    if (finding.message === '') sink(23, `${at}/message`, 'the message is empty');
    if (selection.quiet && severity !== 'error') sink(20, `${at}/severity`, 'a quiet report lists errors only');
    if (scan.scopeKnown && !enabled.has(ruleId) && !isReserved(ruleId))
      sink(19, `${at}/ruleId`, 'the rule is not among the enabled rules');
  }
}

function checkIdentity(
  finding: Finding,
  at: string,
  seen: Map<string, { count: number; first: Finding }>,
  sink: InvariantSink,
): void {
  const { fingerprint, occurrence, ruleId, location } = finding;
  if (fingerprint === '') return sink(23, `${at}/fingerprint`, 'the fingerprint is empty');
  let known = seen.get(fingerprint);
  if (known === undefined) seen.set(fingerprint, (known = { count: 0, first: finding }));
  known.count += 1;
  if (occurrence !== known.count) {
    const message = `expected occurrence ${known.count} of this fingerprint, found ${occurrence}`;
    sink(12, `${at}/occurrence`, message);
  }
  const { first } = known;
  const isSame =
    first.ruleId === ruleId && first.location.scope === location.scope && first.location.path === location.path;
  if (!isSame) sink(13, `${at}/fingerprint`, 'another rule, scope or path has the same fingerprint');
}

function checkLocation(
  { location }: Finding,
  index: string,
  target: Report['scan']['target'],
  sink: InvariantSink,
): void {
  const { scope, path, line, column } = location;
  const at = `${index}/location`;
  if (scope === 'project') {
    if (line !== undefined) sink(14, `${at}/line`, 'a finding of the project has no line');
    else if (column !== undefined) sink(14, `${at}/column`, 'a finding of the project has no column');
  } else if (path === undefined) sink(14, `${at}/path`, 'a finding in a file needs a path');
  else if (column !== undefined && line === undefined) sink(15, `${at}/column`, 'a column needs a line');
  if (path === undefined || (scope === 'project' && path === '.')) return;
  const fault = pathFault(path);
  if (fault !== undefined) return sink(16, `${at}/path`, fault);
  if (target === null || scope !== 'file') return;
  const isInside = target.kind === 'file' ? path === target.path : isUnder(path, target.path);
  if (!isInside) sink(17, `${at}/path`, `the path is outside the target ${target.path}`);
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

function checkCounts({ summary, execution, findings }: Report, sink: InvariantSink): void {
  const expect = (number: number, name: string, actual: number, expected: number | undefined) => {
    if (!isCount(actual)) sink(4, `/summary/${name}`, `a count is an integer of 0 or more, found ${actual}`);
    else if (expected !== undefined && actual !== expected)
      sink(number, `/summary/${name}`, `expected ${expected}, found ${actual}`);
  };
  const { totalFiles, totalIssues, bySeverity, parseErrors, ruleErrors } = summary;
  const right = summaryOf(totalFiles, findings, execution.diagnostics);
  expect(1, 'totalIssues', totalIssues, right.totalIssues);
  for (const severity of SEVERITIES)
    expect(2, `bySeverity/${severity}`, bySeverity[severity], right.bySeverity[severity]);
  expect(5, 'parseErrors', parseErrors, right.parseErrors);
  expect(6, 'ruleErrors', ruleErrors, right.ruleErrors);
  expect(4, 'totalFiles', totalFiles, undefined);
}

function checkStatus({ execution, summary, findings }: Report, sink: InvariantSink): void {
  const { status, diagnostics } = execution;
  const { totalFiles } = summary;
  const parseErrors = countKind(diagnostics, 'parse-error');
  const failures = parseErrors + countKind(diagnostics, 'rule-error');
  const noFiles = diagnostics.findIndex(({ kind }) => kind === 'no-files');
  if (status === 'complete') {
    if (diagnostics.length > 0) sink(7, '/execution/status', "'complete' allows no diagnostics");
    else if (totalFiles === 0) sink(9, '/execution/status', "expected 'no-files', since totalFiles is 0");
    return;
  }
  if (status === 'incomplete') {
    if (failures === 0) sink(8, '/execution/status', "'incomplete' needs a parse-error or rule-error diagnostic");
    else if (noFiles >= 0 && totalFiles !== 0)
      sink(10, `/execution/diagnostics/${noFiles}/kind`, 'a no-files diagnostic needs totalFiles 0');
    else if (isCount(totalFiles) && parseErrors > totalFiles)
      sink(11, '/summary/totalFiles', `${parseErrors} parse errors in ${totalFiles} files`);
    return;
  }
  const inFile = findings.findIndex(({ location }) => location.scope === 'file');
  if (failures > 0) sink(9, '/execution/status', "'no-files' allows no parse-error or rule-error diagnostic");
  else if (noFiles < 0) sink(9, '/execution/diagnostics', "'no-files' needs a no-files diagnostic");
  else if (totalFiles !== 0) {
    if (isCount(totalFiles)) sink(9, '/summary/totalFiles', "'no-files' needs totalFiles 0");
  } else if (inFile >= 0) sink(9, `/findings/${inFile}/location/scope`, "'no-files' allows no finding in a file");
}

function checkPaths({ execution, scan }: Report, sink: InvariantSink): void {
  for (const [index, { relativePath }] of execution.diagnostics.entries()) {
    const fault = relativePath === undefined ? undefined : pathFault(relativePath);
    if (fault !== undefined) sink(16, `/execution/diagnostics/${index}/relativePath`, fault);
  }
  if (scan.target === null || (scan.target.path === '.' && scan.target.kind === 'project')) return;
  const fault = pathFault(scan.target.path);
  if (fault !== undefined) sink(16, '/scan/target/path', fault);
}

function checkScope({ scan }: Report, sink: InvariantSink): void {
  if (scan.scopeKnown) {
    if (scan.target === null) sink(18, '/scan/target', 'a known scope needs a target');
    return;
  }
  if (scan.target !== null) sink(18, '/scan/target', 'an unknown scope has no target');
  for (const name of ['enabledRuleIds', 'include', 'exclude'] as const)
    if (scan[name].length > 0) sink(18, `/scan/${name}`, 'an unknown scope has empty lists');
}

function checkBaseline({ selection, summary }: Report, sink: InvariantSink): void {
  const { baseline, quiet } = selection;
  if (baseline === undefined) return;
  for (const name of ['newIssues', 'unchanged', 'fixed'] as const) {
    const value = baseline[name];
    if (!isCount(value)) sink(4, `/selection/baseline/${name}`, `a count is an integer of 0 or more, found ${value}`);
  }
  const { newIssues } = baseline;
  const { totalIssues } = summary;
  if (!isCount(newIssues) || !isCount(totalIssues)) return;
  if (quiet ? newIssues >= totalIssues : newIssues === totalIssues) return;
  const message = `expected ${quiet ? 'at least ' : ''}${totalIssues}, found ${newIssues}`;
  sink(21, '/selection/baseline/newIssues', message);
}
