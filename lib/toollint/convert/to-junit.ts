// JUnit XML: a suite for each file, a case for each finding. What did not run is an error in a suite of its own, so an
// incomplete analysis is never all green; a complete one without findings is one passing case.
//
// Suites need all findings of a file together: findings in canonical order are written as they come, others are sorted
// in memory first.
import type { ConvertOptions } from './convert-options.ts';
import { compareFindings } from '../document/finding-order.ts';
import { byCodeUnits } from '../document/report-path.ts';
import type { Finding, ReportHeader } from '../document/report-schema.ts';
import type { ReportSource } from '../document/report-source.ts';
import type { TextSink } from '../document/report-writer.ts';

const EXECUTION_SUITE = 'toollint.execution';
const PROJECT_SUITE = '(project)';

interface SuiteCounts {
  tests: number;
  failures: number;
}

/** Writes the document. */
export async function writeJunit(report: ReportSource, sink: TextSink, _options: ConvertOptions): Promise<void> {
  const { header } = report;
  const { suites, inOrder } = await countSuites(report);
  const failures = [...suites.values()].reduce((sum, suite) => sum + suite.failures, 0);
  const tests = [...suites.values()].reduce((sum, suite) => sum + suite.tests, 0);
  const own = executionSuite(header, suites.size === 0);
  const totals = `tests="${tests + own.tests}" failures="${failures}" errors="${own.errors}"`;
  await sink(`<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="toollint" ${totals}>\n${own.text}`);
  let open: string | undefined;
  for await (const batch of inOrder ? report.findings() : sortedFindings(report)) {
    let text = '';
    for (const finding of batch) {
      const name = suiteOf(finding);
      if (name !== open) {
        const counts = suites.get(name) ?? { tests: 0, failures: 0 };
        if (open !== undefined) text += '</testsuite>\n';
        text += suiteOpens(xml(name), counts.tests, counts.failures, 0);
        open = name;
      }
      text += caseOf(finding, name);
    }
    if (text !== '') await sink(text);
  }
  await sink(`${open === undefined ? '' : '</testsuite>\n'}</testsuites>\n`);
}

async function countSuites(report: ReportSource): Promise<{ suites: Map<string, SuiteCounts>; inOrder: boolean }> {
  const suites = new Map<string, SuiteCounts>();
  let inOrder = true;
  let previous = '';
  for await (const batch of report.findings()) {
    for (const finding of batch) {
      const name = suiteOf(finding);
      const path = finding.location.path ?? '';
      if (byCodeUnits(previous, path) > 0) inOrder = false;
      previous = path;
      const suite = suites.get(name) ?? { tests: 0, failures: 0 };
      suites.set(name, suite);
      suite.tests += 1;
      if (finding.severity !== 'info') suite.failures += 1;
    }
  }
  return { suites, inOrder };
}

async function* sortedFindings(report: ReportSource): AsyncGenerator<Finding[]> {
  const all: Finding[] = [];
  for await (const batch of report.findings()) for (const finding of batch) all.push(finding);
  yield all.sort(compareFindings);
}

function suiteOf({ location }: Finding): string {
  return location.path ?? PROJECT_SUITE;
}

function executionSuite(
  { execution, summary }: ReportHeader,
  empty: boolean,
): { text: string; tests: number; errors: number } {
  const { diagnostics, status } = execution;
  if (diagnostics.length === 0 && !empty) return { text: '', tests: 0, errors: 0 };
  if (diagnostics.length === 0 && status === 'complete') {
    const only = `<testcase classname="${EXECUTION_SUITE}" name="${summary.totalFiles} files, no findings"/>\n`;
    return {
      text: `${suiteOpens(EXECUTION_SUITE, 1, 0, 0)}${only}</testsuite>\n`,
      tests: 1,
      errors: 0,
    };
  }
  const cases = diagnostics.map(({ kind, message, ruleId, relativePath }) => {
    const name = [kind, ruleId, relativePath].filter((part) => part !== undefined).join(' ');
    return errorCase(xml(name), kind, xml(message));
  });
  if (cases.length === 0) cases.push(errorCase(status, status, status));
  const { length } = cases;
  return {
    text: `${suiteOpens(EXECUTION_SUITE, length, 0, length)}${cases.join('')}</testsuite>\n`,
    tests: length,
    errors: length,
  };
}

/** All of it is XML already. */
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

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&apos;',
  '\n': '&#10;',
  '\r': '&#13;',
  '\t': '&#9;',
};

/** Characters that XML 1.0 (section 2.2) does not allow become U+FFFD. */
function xml(text: string): string {
  return (
    text
      .toWellFormed()
      // eslint-disable-next-line no-control-regex -- the characters that XML 1.0 leaves out
      .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/gu, '\ufffd')
      .replace(/[&<>"'\n\r\t]/gu, (character) => ENTITIES[character] ?? character)
  );
}
