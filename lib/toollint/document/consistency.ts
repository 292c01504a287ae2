// Checks what the schema cannot express: the members of a report must agree with each other. A contradiction is
// reported once, at the member that is most likely wrong, so an invalid count is not compared further.
import { countKind, summaryOf } from './build-report.ts';
import { pathFault, isUnder } from './report-path.ts';
import { isReserved, SEVERITIES, TOOL_NAME } from './report-format.ts';
import type { Finding, Report } from './report-schema.ts';

type Contradictions = Generator<readonly [code: string, pointer: string, message: string]>;

/** Other tools may scan and compare in another way, so these apply only to scans by toollint. */
const OWN_CODES = new Set<string>(['shared-fingerprint', 'outside-target', 'rule-not-enabled', 'wrong-new-issues']);

export function* contradictionsIn(report: Report): Contradictions {
  const isOwn = report.tool.name === TOOL_NAME;
  for (const check of [checkFindings, checkCounts, checkStatus, checkHeader])
    for (const fault of check(report)) if (isOwn || !OWN_CODES.has(fault[0])) yield fault;
}

function* checkHeader({ gate, execution, scan, tool }: Report): Contradictions {
  const { scopeKnown, target } = scan;
  for (const [index, { relativePath }] of execution.diagnostics.entries())
    yield* checkPath(relativePath, `/execution/diagnostics/${index}/relativePath`);
  if (target?.kind === 'file' || target?.path !== '.') yield* checkPath(target?.path, '/scan/target/path');
  const rule = scopeKnown ? 'a known scope needs a target' : 'an unknown scope has no target';
  if (scopeKnown === (target === null)) yield ['contradictory-scope', '/scan/target', rule];
  for (const name of ['enabledRuleIds', 'include', 'exclude'] as const)
    if (!scopeKnown && scan[name].length > 0)
      yield ['contradictory-scope', `/scan/${name}`, 'an unknown scope has empty lists'];
  if ((gate.status === 'passed' || gate.status === 'warning') && execution.status !== 'complete')
    yield ['gate-of-unfinished', '/gate/status', `the gate cannot be '${gate.status}' without a complete execution`];
  for (const name of ['name', 'version'] as const)
    if (tool[name] === '') yield ['empty-text', `/tool/${name}`, 'the text is empty'];
}

function* checkPath(path: string | undefined, pointer: string): Contradictions {
  const fault = path === undefined ? undefined : pathFault(path);
  if (fault !== undefined) yield ['invalid-path', pointer, fault];
}

function* checkFindings({ findings, scan, selection }: Report): Contradictions {
  const groups = new Map<string, { count: number; first: Finding }>();
  const enabled = new Set(scan.enabledRuleIds);
  for (const [index, finding] of findings.entries()) {
    const at = `/findings/${index}`;
    const { ruleId, severity, fingerprint, occurrence, location } = finding;
    for (const name of ['fingerprint', 'ruleId', 'message'] as const)
      if (finding[name] === '') yield ['empty-text', `${at}/${name}`, 'the text is empty'];
    const { first, count } = groups.get(fingerprint) ?? { count: 0, first: finding };
    groups.set(fingerprint, { first, count: count + 1 });
    if (fingerprint !== '' && occurrence !== count + 1)
      yield ['wrong-occurrence', `${at}/occurrence`, `expected occurrence ${count + 1} of this fingerprint`];
    const { scope, path } = first.location;
    if (fingerprint !== '' && (first.ruleId !== ruleId || scope !== location.scope || path !== location.path))
      yield ['shared-fingerprint', `${at}/fingerprint`, 'another rule, scope or path has the same fingerprint'];
    yield* checkLocation(finding, `${at}/location`, scan.target);
    if (selection.quiet && severity !== 'error')
      yield ['not-an-error', `${at}/severity`, 'a quiet report lists errors only'];
    if (scan.scopeKnown && !enabled.has(ruleId) && !isReserved(ruleId))
      yield ['rule-not-enabled', `${at}/ruleId`, 'the rule is not among the enabled rules'];
  }
}

function* checkLocation({ location }: Finding, at: string, target: Report['scan']['target']): Contradictions {
  const { scope, path, line, column } = location;
  const isFile = scope === 'file';
  const odd = {
    path: isFile && path === undefined,
    line: !isFile && line !== undefined,
    column: column !== undefined && (!isFile || line === undefined),
  };
  const [name] = Object.entries(odd).find(([, isOdd]) => isOdd) ?? [];
  if (name !== undefined)
    yield ['impossible-location', `${at}/${name}`, 'a finding in a file has a path, and a line if it has a column'];
  if (isFile || path !== '.') yield* checkPath(path, `${at}/path`);
  if (!isFile || target === null || path === undefined || pathFault(path) !== undefined) return;
  const isInside = target.kind === 'file' ? path === target.path : isUnder(path, target.path);
  if (!isInside) yield ['outside-target', `${at}/path`, `the path is outside the target ${target.path}`];
}

const isCount = (value: number) => Number.isSafeInteger(value) && value >= 0;

function* checkCounts({ summary, execution, findings, selection }: Report): Contradictions {
  const right = summaryOf(summary.totalFiles, findings, execution.diagnostics);
  const { baseline, quiet } = selection;
  const counts = new Map<string, [actual: number, expected?: number]>();
  for (const one of SEVERITIES)
    counts.set(`/summary/bySeverity/${one}`, [summary.bySeverity[one], right.bySeverity[one]]);
  for (const name of ['totalIssues', 'parseErrors', 'ruleErrors', 'totalFiles'] as const)
    counts.set(`/summary/${name}`, [summary[name], right[name]]);
  for (const name of ['newIssues', 'unchanged', 'fixed'] as const)
    if (baseline !== undefined) counts.set(`/selection/baseline/${name}`, [baseline[name]]);
  for (const [pointer, [actual, expected = actual]] of counts)
    if (!isCount(actual)) yield ['not-a-count', pointer, `expected an integer of 0 or more, found ${actual}`];
    else if (actual !== expected) yield ['wrong-count', pointer, `expected ${expected}, found ${actual}`];
  const { totalIssues } = summary;
  const { newIssues = totalIssues } = baseline ?? {};
  const isWrong = newIssues < totalIssues || (!quiet && newIssues > totalIssues);
  if (isWrong && isCount(newIssues) && isCount(totalIssues))
    yield ['wrong-new-issues', '/selection/baseline/newIssues', `the report lists ${totalIssues}, found ${newIssues}`];
}

function* checkStatus({ execution: { status, diagnostics }, summary, findings }: Report): Contradictions {
  const { totalFiles } = summary;
  const noFiles = countKind(diagnostics, 'no-files');
  const parseErrors = countKind(diagnostics, 'parse-error');
  const expected = diagnostics.length > noFiles ? 'incomplete' : totalFiles === 0 ? 'no-files' : 'complete';
  const inFile = findings.findIndex(({ location }) => location.scope === 'file');
  if (status !== expected)
    yield ['wrong-status', '/execution/status', `the diagnostics and totalFiles need '${expected}'`];
  else if (status === 'no-files' ? noFiles === 0 : noFiles > 0 && totalFiles !== 0)
    yield ['wrong-status', '/execution/diagnostics', "a no-files diagnostic and 'no-files' need each other"];
  else if (isCount(totalFiles) && parseErrors > totalFiles)
    yield ['wrong-count', '/summary/totalFiles', `${parseErrors} parse errors in ${totalFiles} files`];
  else if (status === 'no-files' && inFile >= 0)
    yield ['wrong-status', `/findings/${inFile}/location/scope`, "'no-files' allows no finding in a file"];
}
