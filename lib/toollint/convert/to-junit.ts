// Writes JUnit XML with a suite for each file and a case for each finding. Diagnostics are errors in their own suite,
// so an incomplete analysis is never all green. A complete report without findings becomes one passing case.
import { compareFindings } from '../document/file-findings.ts';
import type { Finding, Report } from '../document/report-schema.ts';
import { ownDiagnostics, placesOf } from './converter.ts';
import { markupText } from './plain-text.ts';

const EXECUTION_SUITE = 'toollint.execution';
const PROJECT_SUITE = '(project)';

export function* junitText(report: Report): Generator<string> {
  const suites = Map.groupBy([...report.findings].sort(compareFindings), suiteOf);
  const own = executionSuite(report);
  const failures = report.findings.filter(isFailure).length;
  const totals = `tests="${report.findings.length + own.tests}" failures="${failures}" errors="${own.errors}"`;
  yield `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="toollint" ${totals}>\n${own.text}`;
  for (const [name, findings] of suites) {
    yield suiteOpens(xml(name), findings.length, findings.filter(isFailure).length, 0);
    for (const finding of findings) yield caseOf(finding, name);
    yield '</testsuite>\n';
  }
  yield '</testsuites>\n';
}

function suiteOf({ location }: Finding): string {
  return location.path ?? PROJECT_SUITE;
}

function isFailure({ severity }: Finding): boolean {
  return severity !== 'info';
}

function executionSuite(report: Report): { text: string; tests: number; errors: number } {
  const { execution, findings, summary } = report;
  const diagnostics = ownDiagnostics(report);
  if (diagnostics.length === 0 && findings.length > 0) return { text: '', tests: 0, errors: 0 };
  if (diagnostics.length === 0 && execution.status === 'complete') {
    const only = `<testcase classname="${EXECUTION_SUITE}" name="${summary.totalFiles} files, no findings"/>\n`;
    return { text: `${suiteOpens(EXECUTION_SUITE, 1, 0, 0)}${only}</testsuite>\n`, tests: 1, errors: 0 };
  }
  const cases = diagnostics.map((one) =>
    errorCase(xml([one.kind, ...placesOf(one)].join(' ')), one.kind, xml(one.message)),
  );
  if (cases.length === 0) cases.push(errorCase(execution.status, execution.status, execution.status));
  const { length } = cases;
  const text = `${suiteOpens(EXECUTION_SUITE, length, 0, length)}${cases.join('')}</testsuite>\n`;
  return { text, tests: length, errors: length };
}

/** The arguments must already be escaped. */
const suiteOpens = (name: string, tests: number, failures: number, errors: number): string =>
  `<testsuite name="${name}" tests="${tests}" failures="${failures}" errors="${errors}">\n`;

const errorCase = (name: string, type: string, message: string): string =>
  `<testcase classname="${EXECUTION_SUITE}" name="${name}"><error type="${type}" message="${message}"/></testcase>\n`;

function caseOf({ ruleId, severity, message, location, occurrence }: Finding, suite: string): string {
  const place =
    location.line === undefined ? '' : `:${location.line}${location.column === undefined ? '' : `:${location.column}`}`;
  const repeated = occurrence === 1 ? '' : ` #${occurrence}`;
  const open = `<testcase classname="${xml(suite)}" name="${xml(`${ruleId}${place}${repeated}`)}">`;
  if (severity === 'info') return `${open}<system-out>${xml(message)}</system-out></testcase>\n`;
  const text = xml(`${suite}${place} ${message} (${ruleId})`);
  return `${open}<failure type="${severity}" message="${xml(message)}">${text}</failure></testcase>\n`;
}

const BLANKS: Readonly<Record<string, string>> = { '\n': '&#10;', '\r': '&#13;', '\t': '&#9;' };

/** Replaces characters that XML 1.0 does not allow (section 2.2) with U+FFFD. */
function xml(text: string): string {
  // eslint-disable-next-line no-control-regex -- the characters that XML 1.0 does not allow
  const allowed = text.toWellFormed().replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/gu, '\ufffd');
  return markupText(allowed).replace(/[\n\r\t]/gu, (blank) => BLANKS[blank] ?? blank);
}
