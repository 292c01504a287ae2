// Writes JUnit XML with a suite for each file and a case for each finding. Diagnostics are errors in their own suite,
// so an incomplete analysis is never all green. A complete report without findings becomes one passing case.
import { compareFindings } from '../document/file-findings.ts';
import type { Finding, Report } from '../document/report-schema.ts';
import { ownDiagnostics, placesOf } from './converter.ts';
import { markupText } from './plain-text.ts';

const EXECUTION_SUITE = 'toollint.execution';

export function* junitText(report: Report): Generator<string> {
  const { execution, findings, summary } = report;
  const errors = ownDiagnostics(report).map((one) =>
    errorCase(xml([one.kind, ...placesOf(one)].join(' ')), one.kind, xml(one.message)),
  );
  const { status } = execution;
  if (errors.length === 0 && findings.length === 0 && status !== 'complete')
    errors.push(errorCase(status, status, status));
  const isClean = errors.length === 0 && findings.length === 0;
  const clean = `<testcase classname="${EXECUTION_SUITE}" name="${summary.totalFiles} files, no findings"/>\n`;
  const own = isClean ? [clean] : errors;
  const failures = findings.filter(isFailure).length;
  yield `<?xml version="1.0" encoding="UTF-8"?>\n`;
  yield tag('testsuites', 'toollint', findings.length + own.length, failures, errors.length);
  if (own.length > 0)
    yield `${tag('testsuite', EXECUTION_SUITE, own.length, 0, errors.length)}${own.join('')}</testsuite>\n`;
  const sorted = findings.toSorted(compareFindings);
  for (const [name, group] of Map.groupBy(sorted, ({ location }) => location.path ?? '(project)')) {
    yield tag('testsuite', xml(name), group.length, group.filter(isFailure).length, 0);
    for (const finding of group) yield caseOf(finding, name);
    yield '</testsuite>\n';
  }
  yield '</testsuites>\n';
}

const isFailure = ({ severity }: Finding) => severity !== 'info';

/** The name must already be escaped, as the arguments of `errorCase`. */
const tag = (kind: string, name: string, tests: number, failures: number, errors: number): string =>
  `<${kind} name="${name}" tests="${tests}" failures="${failures}" errors="${errors}">\n`;

const errorCase = (name: string, type: string, message: string): string =>
  `<testcase classname="${EXECUTION_SUITE}" name="${name}"><error type="${type}" message="${message}"/></testcase>\n`;

function caseOf({ ruleId, severity, message, location, occurrence }: Finding, suite: string): string {
  const place = [location.line, location.column].flatMap((part) => (part === undefined ? [] : `:${part}`)).join('');
  const repeated = occurrence === 1 ? '' : ` #${occurrence}`;
  const open = `<testcase classname="${xml(suite)}" name="${xml(`${ruleId}${place}${repeated}`)}">`;
  if (severity === 'info') return `${open}<system-out>${xml(message)}</system-out></testcase>\n`;
  const text = xml(`${suite}${place} ${message} (${ruleId})`);
  return `${open}<failure type="${severity}" message="${xml(message)}">${text}</failure></testcase>\n`;
}

/** Replaces characters that XML 1.0 does not allow (section 2.2) with U+FFFD. */
function xml(text: string): string {
  // eslint-disable-next-line no-control-regex -- the characters that XML 1.0 does not allow
  const allowed = text.toWellFormed().replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/gu, '\ufffd');
  const escape = (character: string) => `&#${character.charCodeAt(0)};`;
  return markupText(allowed).replace(/[\n\r\t]|(?<=#)#(?=\[|vso\[)/giu, escape);
}
