// Checks what the schema cannot express: the members of a report must agree with each other. A contradiction is
// reported once, at the member that is most likely wrong, so an invalid count is not compared further.
import { countKind, summaryOf } from './build-report.ts';
import { pathFault, isUnder } from './report-path.ts';
import { isReserved, SEVERITIES, TOOL_NAME } from './report-format.ts';
import type { Finding, Report } from './report-schema.ts';

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
  const { gate, execution, scan, tool } = report;
  checkFindings(report, sink);
  checkCounts(report, sink);
  checkStatus(report, sink);
  for (const [index, { relativePath }] of execution.diagnostics.entries())
    checkPath(relativePath, `/execution/diagnostics/${index}/relativePath`, sink);
  if (scan.target?.kind === 'file' || scan.target?.path !== '.')
    checkPath(scan.target?.path, '/scan/target/path', sink);
  checkScope(report, sink);
  if ((gate.status === 'passed' || gate.status === 'warning') && execution.status !== 'complete') {
    const message = `the gate cannot be '${gate.status}' when the execution is '${execution.status}'`;
    sink('gate-of-unfinished', '/gate/status', message);
  }
  checkText(tool.name, '/tool/name', sink);
  checkText(tool.version, '/tool/version', sink);
}

function checkText(text: string, pointer: string, sink: ContradictionSink): void {
  if (text === '') sink('empty-text', pointer, 'the text is empty');
}

/** Returns false for an invalid path. */
function checkPath(path: string | undefined, pointer: string, sink: ContradictionSink): boolean {
  const fault = path === undefined ? undefined : pathFault(path);
  if (fault !== undefined) sink('invalid-path', pointer, fault);
  return fault === undefined;
}

function checkFindings({ findings, scan, selection }: Report, sink: ContradictionSink): void {
  const seen = new Map<string, { count: number; first: Finding }>();
  const enabled = new Set(scan.enabledRuleIds);
  for (const [index, finding] of findings.entries()) {
    const at = `/findings/${index}`;
    const { ruleId, severity, message, fingerprint, occurrence, location } = finding;
    if (fingerprint !== '') {
      const known = seen.get(fingerprint) ?? { count: 0, first: finding };
      seen.set(fingerprint, known);
      known.count += 1;
      if (occurrence !== known.count)
        sink('wrong-occurrence', `${at}/occurrence`, `expected occurrence ${known.count} of this fingerprint`);
      const { first } = known;
      const { scope, path } = first.location;
      if (first.ruleId !== ruleId || scope !== location.scope || path !== location.path)
        sink('shared-fingerprint', `${at}/fingerprint`, 'another rule, scope or path has the same fingerprint');
    }
    checkText(fingerprint, `${at}/fingerprint`, sink);
    checkLocation(finding, `${at}/location`, scan.target, sink);
    checkText(ruleId, `${at}/ruleId`, sink);
    checkText(message, `${at}/message`, sink);
    if (selection.quiet && severity !== 'error')
      sink('not-an-error', `${at}/severity`, 'a quiet report lists errors only');
    if (scan.scopeKnown && !enabled.has(ruleId) && !isReserved(ruleId))
      sink('rule-not-enabled', `${at}/ruleId`, 'the rule is not among the enabled rules');
  }
}

function checkLocation(
  { location: { scope, path, line, column } }: Finding,
  at: string,
  target: Report['scan']['target'],
  sink: ContradictionSink,
): void {
  const isFile = scope === 'file';
  const faults = [
    [!isFile && line !== undefined, 'line', 'a finding of the project has no line'],
    [!isFile && column !== undefined, 'column', 'a finding of the project has no column'],
    [isFile && path === undefined, 'path', 'a finding in a file needs a path'],
    [isFile && column !== undefined && line === undefined, 'column', 'a column needs a line'],
  ] as const;
  const [, name, message] = faults.find(([isFault]) => isFault) ?? [];
  if (name !== undefined) sink('impossible-location', `${at}/${name}`, message ?? '');
  if (path === undefined || (!isFile && path === '.') || !checkPath(path, `${at}/path`, sink)) return;
  if (target === null || !isFile) return;
  const isInside = target.kind === 'file' ? path === target.path : isUnder(path, target.path);
  if (!isInside) sink('outside-target', `${at}/path`, `the path is outside the target ${target.path}`);
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

function checkCounts({ summary, execution, findings, selection }: Report, sink: ContradictionSink): void {
  const expect = (pointer: string, actual: number, expected = actual) => {
    if (!isCount(actual)) sink('not-a-count', pointer, `expected an integer of 0 or more, found ${actual}`);
    else if (actual !== expected) sink('wrong-count', pointer, `expected ${expected}, found ${actual}`);
  };
  const { totalFiles, totalIssues, bySeverity } = summary;
  const right = summaryOf(totalFiles, findings, execution.diagnostics);
  expect('/summary/totalIssues', totalIssues, right.totalIssues);
  for (const severity of SEVERITIES)
    expect(`/summary/bySeverity/${severity}`, bySeverity[severity], right.bySeverity[severity]);
  for (const name of ['parseErrors', 'ruleErrors', 'totalFiles'] as const)
    expect(`/summary/${name}`, summary[name], right[name]);
  const { baseline, quiet } = selection;
  if (baseline === undefined) return;
  for (const name of ['newIssues', 'unchanged', 'fixed'] as const)
    expect(`/selection/baseline/${name}`, baseline[name]);
  const { newIssues } = baseline;
  if (!isCount(newIssues) || !isCount(totalIssues)) return;
  if (newIssues < totalIssues || (!quiet && newIssues > totalIssues)) {
    const message = `expected ${quiet ? 'at least ' : ''}${totalIssues}, found ${newIssues}`;
    sink('wrong-new-issues', '/selection/baseline/newIssues', message);
  }
}

function checkStatus({ execution: { status, diagnostics }, summary, findings }: Report, sink: ContradictionSink): void {
  const { totalFiles } = summary;
  const wrong = (pointer: string, message: string) => sink('wrong-status', pointer, message);
  const parseErrors = countKind(diagnostics, 'parse-error');
  const failures = parseErrors + countKind(diagnostics, 'rule-error');
  const noFiles = diagnostics.findIndex(({ kind }) => kind === 'no-files');
  const inFile = findings.findIndex(({ location }) => location.scope === 'file');
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
  else if (isCount(totalFiles) && totalFiles !== 0) wrong('/summary/totalFiles', "'no-files' needs totalFiles 0");
  else if (totalFiles === 0 && inFile >= 0)
    wrong(`/findings/${inFile}/location/scope`, "'no-files' allows no finding in a file");
}

function checkScope({ scan }: Report, sink: ContradictionSink): void {
  const wrong = (name: string, message: string) => sink('contradictory-scope', `/scan/${name}`, message);
  if (scan.scopeKnown && scan.target === null) wrong('target', 'a known scope needs a target');
  if (scan.scopeKnown) return;
  if (scan.target !== null) wrong('target', 'an unknown scope has no target');
  for (const name of ['enabledRuleIds', 'include', 'exclude'] as const)
    if (scan[name].length > 0) wrong(name, 'an unknown scope has empty lists');
}
