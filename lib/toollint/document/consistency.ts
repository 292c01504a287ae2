// Checks what the schema cannot express: the members of a report must agree with each other. A contradiction is
// reported once, at the member that is most likely wrong, so an invalid count is not compared further.
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

/** Receives a code, a JSON Pointer and a message. */
export type ContradictionSink = (code: string, pointer: string, message: string) => void;

/** Other tools may scan and compare in another way, so these apply only to scans by toollint. */
const OWN_CODES: ReadonlySet<string> = new Set([
  'shared-fingerprint',
  'outside-target',
  'rule-not-enabled',
  'wrong-new-issues',
]);

export function checkConsistency(report: Report, tell: ContradictionSink): void {
  const isOwn = report.tool.name === TOOL_NAME;
  const sink: ContradictionSink = (code, pointer, message) => {
    if (isOwn || !OWN_CODES.has(code)) tell(code, pointer, message);
  };
  checkFindings(report, sink);
  checkCounts(report, sink);
  checkStatus(report, sink);
  checkPaths(report, sink);
  checkScope(report, sink);
  checkBaseline(report, sink);
  const { gate, execution, tool } = report;
  if ((gate.status === 'passed' || gate.status === 'warning') && execution.status !== 'complete') {
    sink(
      'gate-of-unfinished',
      '/gate/status',
      `the gate cannot be '${gate.status}' when the execution is '${execution.status}'`,
    );
  }
  if (tool.name === '') sink('empty-text', '/tool/name', 'the name is empty');
  if (tool.version === '') sink('empty-text', '/tool/version', 'the version is empty');
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

function checkFindings({ findings, scan, selection }: Report, sink: ContradictionSink): void {
  const seen = new Map<string, { count: number; first: Finding }>();
  const enabled = new Set(scan.enabledRuleIds);
  for (const [index, finding] of findings.entries()) {
    const at = `/findings/${index}`;
    const { ruleId, severity } = finding;
    checkIdentity(finding, at, seen, sink);
    checkLocation(finding, at, scan.target, sink);
    if (ruleId === '') sink('empty-text', `${at}/ruleId`, 'the rule id is empty');
    if (finding.message === '') sink('empty-text', `${at}/message`, 'the message is empty');
    if (selection.quiet && severity !== 'error')
      sink('not-an-error', `${at}/severity`, 'a quiet report lists errors only');
    if (scan.scopeKnown && !enabled.has(ruleId) && !isReserved(ruleId))
      sink('rule-not-enabled', `${at}/ruleId`, 'the rule is not among the enabled rules');
  }
}

function checkIdentity(
  finding: Finding,
  at: string,
  seen: Map<string, { count: number; first: Finding }>,
  sink: ContradictionSink,
): void {
  const { fingerprint, occurrence, ruleId, location } = finding;
  if (fingerprint === '') return sink('empty-text', `${at}/fingerprint`, 'the fingerprint is empty');
  let known = seen.get(fingerprint);
  if (known === undefined) seen.set(fingerprint, (known = { count: 0, first: finding }));
  known.count += 1;
  if (occurrence !== known.count) {
    const message = `expected occurrence ${known.count} of this fingerprint, found ${occurrence}`;
    sink('wrong-occurrence', `${at}/occurrence`, message);
  }
  const { first } = known;
  const isSame =
    first.ruleId === ruleId && first.location.scope === location.scope && first.location.path === location.path;
  if (!isSame) sink('shared-fingerprint', `${at}/fingerprint`, 'another rule, scope or path has the same fingerprint');
}

function checkLocation(
  { location }: Finding,
  index: string,
  target: Report['scan']['target'],
  sink: ContradictionSink,
): void {
  const { scope, path, line, column } = location;
  const at = `${index}/location`;
  if (scope === 'project') {
    if (line !== undefined) sink('impossible-location', `${at}/line`, 'a finding of the project has no line');
    else if (column !== undefined)
      sink('impossible-location', `${at}/column`, 'a finding of the project has no column');
  } else if (path === undefined) sink('impossible-location', `${at}/path`, 'a finding in a file needs a path');
  else if (column !== undefined && line === undefined)
    sink('impossible-location', `${at}/column`, 'a column needs a line');
  if (path === undefined || (scope === 'project' && path === '.')) return;
  const fault = pathFault(path);
  if (fault !== undefined) return sink('invalid-path', `${at}/path`, fault);
  if (target === null || scope !== 'file') return;
  const isInside = target.kind === 'file' ? path === target.path : isUnder(path, target.path);
  if (!isInside) sink('outside-target', `${at}/path`, `the path is outside the target ${target.path}`);
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

function checkCounts({ summary, execution, findings }: Report, sink: ContradictionSink): void {
  const expect = (name: string, actual: number, expected = actual) => {
    if (!isCount(actual)) sink('not-a-count', `/summary/${name}`, `expected an integer of 0 or more, found ${actual}`);
    else if (actual !== expected) sink('wrong-count', `/summary/${name}`, `expected ${expected}, found ${actual}`);
  };
  const { totalFiles, totalIssues, bySeverity, parseErrors, ruleErrors } = summary;
  const right = summaryOf(totalFiles, findings, execution.diagnostics);
  expect('totalIssues', totalIssues, right.totalIssues);
  for (const severity of SEVERITIES) expect(`bySeverity/${severity}`, bySeverity[severity], right.bySeverity[severity]);
  expect('parseErrors', parseErrors, right.parseErrors);
  expect('ruleErrors', ruleErrors, right.ruleErrors);
  expect('totalFiles', totalFiles);
}

function checkStatus({ execution, summary, findings }: Report, sink: ContradictionSink): void {
  const { status, diagnostics } = execution;
  const { totalFiles } = summary;
  const wrong = (pointer: string, message: string) => sink('wrong-status', pointer, message);
  const parseErrors = countKind(diagnostics, 'parse-error');
  const failures = parseErrors + countKind(diagnostics, 'rule-error');
  const noFiles = diagnostics.findIndex(({ kind }) => kind === 'no-files');
  if (status === 'complete') {
    if (diagnostics.length > 0) wrong('/execution/status', "'complete' allows no diagnostics");
    else if (totalFiles === 0) wrong('/execution/status', "expected 'no-files', since totalFiles is 0");
  } else if (status === 'incomplete') {
    if (failures === 0) wrong('/execution/status', "'incomplete' needs a parse-error or rule-error diagnostic");
    else if (noFiles >= 0 && totalFiles !== 0)
      wrong(`/execution/diagnostics/${noFiles}/kind`, 'a no-files diagnostic needs totalFiles 0');
    else if (isCount(totalFiles) && parseErrors > totalFiles)
      sink('wrong-count', '/summary/totalFiles', `${parseErrors} parse errors in ${totalFiles} files`);
  } else if (failures > 0) wrong('/execution/status', "'no-files' allows no parse-error or rule-error diagnostic");
  else if (noFiles < 0) wrong('/execution/diagnostics', "'no-files' needs a no-files diagnostic");
  else if (totalFiles !== 0) {
    if (isCount(totalFiles)) wrong('/summary/totalFiles', "'no-files' needs totalFiles 0");
  } else {
    const inFile = findings.findIndex(({ location }) => location.scope === 'file');
    if (inFile >= 0) wrong(`/findings/${inFile}/location/scope`, "'no-files' allows no finding in a file");
  }
}

function checkPaths({ execution, scan }: Report, sink: ContradictionSink): void {
  for (const [index, { relativePath }] of execution.diagnostics.entries()) {
    const fault = relativePath === undefined ? undefined : pathFault(relativePath);
    if (fault !== undefined) sink('invalid-path', `/execution/diagnostics/${index}/relativePath`, fault);
  }
  if (scan.target === null || (scan.target.path === '.' && scan.target.kind === 'project')) return;
  const fault = pathFault(scan.target.path);
  if (fault !== undefined) sink('invalid-path', '/scan/target/path', fault);
}

function checkScope({ scan }: Report, sink: ContradictionSink): void {
  if (scan.scopeKnown) {
    if (scan.target === null) sink('contradictory-scope', '/scan/target', 'a known scope needs a target');
    return;
  }
  if (scan.target !== null) sink('contradictory-scope', '/scan/target', 'an unknown scope has no target');
  for (const name of ['enabledRuleIds', 'include', 'exclude'] as const)
    if (scan[name].length > 0) sink('contradictory-scope', `/scan/${name}`, 'an unknown scope has empty lists');
}

function checkBaseline({ selection, summary }: Report, sink: ContradictionSink): void {
  const { baseline, quiet } = selection;
  if (baseline === undefined) return;
  for (const name of ['newIssues', 'unchanged', 'fixed'] as const) {
    const value = baseline[name];
    if (!isCount(value))
      sink('not-a-count', `/selection/baseline/${name}`, `a count is an integer of 0 or more, found ${value}`);
  }
  const { newIssues } = baseline;
  const { totalIssues } = summary;
  if (!isCount(newIssues) || !isCount(totalIssues)) return;
  if (quiet ? newIssues >= totalIssues : newIssues === totalIssues) return;
  const message = `expected ${quiet ? 'at least ' : ''}${totalIssues}, found ${newIssues}`;
  sink('wrong-new-issues', '/selection/baseline/newIssues', message);
}
