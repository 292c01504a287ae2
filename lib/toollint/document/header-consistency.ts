// What the header must agree on with itself and with the findings beyond the schema: invariants 1 to 11, 16 (of
// diagnostics and target), 18 and 21 to 23. Each contradiction is told once, at the member that is most likely wrong:
// number 3 (the sum) follows from 1 and 2 and is never told beside them, and a count that is no count (4) is not
// compared any further.
import { type FindingConsistency, type InvariantSink } from './finding-consistency.ts';
import type { Diagnostic, ReportHeader } from './report-schema.ts';
import { pathFault } from './report-path.ts';

/** What was counted in the findings. */
type FindingCounts = Pick<FindingConsistency, 'total' | 'bySeverity' | 'fileScoped' | 'firstFileScoped'>;

/** Tells every contradiction of the header to the sink. */
export function checkHeader(header: ReportHeader, findings: FindingCounts, sink: InvariantSink): void {
  checkCounts(header, findings, sink);
  checkStatus(header, findings, sink);
  checkPaths(header, sink);
  checkScope(header, sink);
  checkBaseline(header, sink);
  const { gate, execution, tool } = header;
  if ((gate.status === 'passed' || gate.status === 'warning') && execution.status !== 'complete') {
    sink(22, '/gate/status', `the gate cannot be '${gate.status}' when the execution is '${execution.status}'`);
  }
  if (tool.name === '') sink(23, '/tool/name', 'the name is empty');
  if (tool.version === '') sink(23, '/tool/version', 'the version is empty');
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

function kindCount(diagnostics: readonly Diagnostic[], kind: Diagnostic['kind']): number {
  return diagnostics.filter((diagnostic) => diagnostic.kind === kind).length;
}

function checkCounts(header: ReportHeader, findings: FindingCounts, sink: InvariantSink): void {
  const { summary, execution } = header;
  const expect = (number: number, name: string, actual: number, expected: number | undefined) => {
    if (!isCount(actual)) sink(4, `/summary/${name}`, `a count is an integer of 0 or more, found ${actual}`);
    else if (expected !== undefined && actual !== expected)
      sink(number, `/summary/${name}`, `expected ${expected}, found ${actual}`);
  };
  expect(1, 'totalIssues', summary.totalIssues, findings.total);
  for (const severity of ['error', 'warning', 'info'] as const) {
    expect(2, `bySeverity/${severity}`, summary.bySeverity[severity], findings.bySeverity[severity]);
  }
  expect(5, 'parseErrors', summary.parseErrors, kindCount(execution.diagnostics, 'parse-error'));
  expect(6, 'ruleErrors', summary.ruleErrors, kindCount(execution.diagnostics, 'rule-error'));
  expect(4, 'totalFiles', summary.totalFiles, undefined);
}

function checkStatus({ execution, summary }: ReportHeader, findings: FindingCounts, sink: InvariantSink): void {
  const { status, diagnostics } = execution;
  const parseErrors = kindCount(diagnostics, 'parse-error');
  const failures = parseErrors + kindCount(diagnostics, 'rule-error');
  const noFiles = kindCount(diagnostics, 'no-files');
  if (status === 'complete') {
    if (diagnostics.length > 0) sink(7, '/execution/status', "'complete' allows no diagnostics");
    else if (summary.totalFiles === 0) sink(9, '/execution/status', "expected 'no-files', since totalFiles is 0");
    return;
  }
  if (status === 'incomplete') {
    if (failures === 0) sink(8, '/execution/status', "'incomplete' needs a parse-error or rule-error diagnostic");
    else if (noFiles > 0 && summary.totalFiles !== 0) {
      sink(
        10,
        `/execution/diagnostics/${diagnostics.findIndex(({ kind }) => kind === 'no-files')}/kind`,
        'a no-files diagnostic needs totalFiles 0',
      );
    } else if (isCount(summary.totalFiles) && parseErrors > summary.totalFiles) {
      sink(11, '/summary/totalFiles', `${parseErrors} parse errors in ${summary.totalFiles} files`);
    }
    return;
  }
  if (failures > 0) sink(9, '/execution/status', "'no-files' allows no parse-error or rule-error diagnostic");
  else if (noFiles === 0) sink(9, '/execution/diagnostics', "'no-files' needs a no-files diagnostic");
  else if (summary.totalFiles !== 0) {
    if (isCount(summary.totalFiles)) sink(9, '/summary/totalFiles', "'no-files' needs totalFiles 0");
  } else if (findings.fileScoped > 0) {
    sink(9, `/findings/${findings.firstFileScoped}/location/scope`, "'no-files' allows no finding in a file");
  }
}

function checkPaths({ execution, scan }: ReportHeader, sink: InvariantSink): void {
  for (const [index, { relativePath }] of execution.diagnostics.entries()) {
    const fault = relativePath === undefined ? undefined : pathFault(relativePath);
    if (fault !== undefined) sink(16, `/execution/diagnostics/${index}/relativePath`, fault);
  }
  if (scan.target === null || (scan.target.path === '.' && scan.target.kind === 'project')) return;
  const fault = pathFault(scan.target.path);
  if (fault !== undefined) sink(16, '/scan/target/path', fault);
}

function checkScope({ scan }: ReportHeader, sink: InvariantSink): void {
  if (scan.scopeKnown) {
    if (scan.target === null) sink(18, '/scan/target', 'a known scope needs a target');
    return;
  }
  if (scan.target !== null) sink(18, '/scan/target', 'an unknown scope has no target');
  for (const name of ['enabledRuleIds', 'include', 'exclude'] as const) {
    if (scan[name].length > 0) sink(18, `/scan/${name}`, 'an unknown scope has empty lists');
  }
}

function checkBaseline({ selection, summary }: ReportHeader, sink: InvariantSink): void {
  const { baseline, quiet } = selection;
  if (baseline === undefined) return;
  for (const name of ['newIssues', 'unchanged', 'fixed'] as const) {
    const value = baseline[name];
    if (!isCount(value)) sink(4, `/selection/baseline/${name}`, `a count is an integer of 0 or more, found ${value}`);
  }
  if (!isCount(baseline.newIssues) || !isCount(summary.totalIssues)) return;
  const fits = quiet ? baseline.newIssues >= summary.totalIssues : baseline.newIssues === summary.totalIssues;
  if (!fits) {
    sink(
      21,
      '/selection/baseline/newIssues',
      `expected ${quiet ? 'at least ' : ''}${summary.totalIssues}, found ${baseline.newIssues}`,
    );
  }
}
