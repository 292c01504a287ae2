import assert from 'node:assert/strict';
import { contentHalf, placeHalf } from '../../../lib/toollint/document/fingerprint.ts';
import type { Finding, Report, Severity } from '../../../lib/toollint/document/report-schema.ts';
import { memorySource, validate } from '../../../lib/toollint/toollint.ts';

export function fingerprintOf(subject: Parameters<typeof contentHalf>[0] & { path: string }): string {
  return contentHalf(subject) + placeHalf(subject.scope, subject.path);
}

export interface FindingSketch {
  ruleId?: string;
  severity?: Severity;
  message?: string;
  path?: string;
  line?: number | undefined;
  column?: number | undefined;
  text?: string;
}

export function sampleFinding(sketch: FindingSketch = {}): Finding {
  const {
    ruleId = 'no-console',
    severity = 'warning',
    message = 'Unexpected console statement.',
    path = 'src/app.ts',
    text = 'console.log(x);',
  } = sketch;
  const line = 'line' in sketch ? sketch.line : 3;
  const column = 'column' in sketch ? sketch.column : 1;
  const texts = { discriminator: message, lineText: text, flaggedText: text };
  const position = { ...(line === undefined ? {} : { line }), ...(column === undefined ? {} : { column }) };
  return {
    ...{ ruleId, severity, message },
    fingerprint: fingerprintOf({ scope: 'file', ruleId, path, ...texts }),
    fingerprintVersion: 'toolLint/v1',
    occurrence: 1,
    location: { scope: 'file', path, ...position },
    standardIds: [],
  };
}

export function projectFinding(message = 'Missing README with # sections'): Finding {
  const ruleId = 'TL-README';
  const texts = { discriminator: message, lineText: '', flaggedText: '' };
  return {
    ...{ ruleId, severity: 'info', message },
    fingerprint: fingerprintOf({ scope: 'project', ruleId, path: '', ...texts }),
    fingerprintVersion: 'toolLint/v1',
    occurrence: 1,
    location: { scope: 'project' },
    standardIds: [],
  };
}

const NO_COUNTS = { totalIssues: 0, parseErrors: 0, ruleErrors: 0 };

/** Returns a complete, valid report with the given findings, numbered in that order. */
export function sampleReport(
  findings: readonly Finding[],
  change: (report: Report) => unknown = () => undefined,
): Report {
  const report: Report = {
    schemaVersion: 1,
    tool: { name: 'toollint', version: '1.0.0' },
    execution: { status: 'complete', diagnostics: [] },
    scan: {
      scopeKnown: true,
      target: { kind: 'project', path: '.' },
      timestamp: '2026-01-31T12:00:00.000Z',
      durationMs: 12.5,
      profile: null,
      enabledRuleIds: [...new Set(findings.map(({ ruleId }) => ruleId))].sort(),
      include: [],
      exclude: [],
    },
    selection: { quiet: false },
    gate: { status: 'not-evaluated' },
    summary: { totalFiles: 9, ...NO_COUNTS, bySeverity: { error: 0, warning: 0, info: 0 } },
    findings: structuredClone([...findings]),
  };
  change(report);
  return recounted(report);
}

export function recounted(report: Report): Report {
  const seen = new Map<string, number>();
  report.summary.bySeverity = { error: 0, warning: 0, info: 0 };
  for (const finding of report.findings) {
    const occurrence = (seen.get(finding.fingerprint) ?? 0) + 1;
    seen.set(finding.fingerprint, occurrence);
    finding.occurrence = occurrence;
    report.summary.bySeverity[finding.severity] += 1;
  }
  const kinds = report.execution.diagnostics.map(({ kind }) => kind);
  report.summary.totalIssues = report.findings.length;
  report.summary.parseErrors = kinds.filter((kind) => kind === 'parse-error').length;
  report.summary.ruleErrors = kinds.filter((kind) => kind === 'rule-error').length;
  return report;
}

export function noFilesReport(): Report {
  return sampleReport([], (report) => {
    report.execution = { status: 'no-files', diagnostics: [{ kind: 'no-files', message: 'none' }] };
    report.summary.totalFiles = 0;
  });
}

export function incompleteReport(diagnostics: Report['execution']['diagnostics'], findings: Finding[] = []): Report {
  return sampleReport(findings, (report) => (report.execution = { status: 'incomplete', diagnostics }));
}

/** Returns a valid report with every optional member. */
export function fullReport(): Report {
  const finding: Finding = {
    ...sampleFinding({ severity: 'error' }),
    suggestion: 'Remove it.',
    codeSnippet: 'console.log(x);',
    category: 'suggestion',
    issueType: 'code-smell',
    standardIds: ['CWE-1'],
    docsUrl: 'https://example.org/no-console',
  };
  return sampleReport([finding, sampleFinding({ line: 9 })], (report) => {
    report.execution = {
      status: 'incomplete',
      diagnostics: [{ kind: 'rule-error', message: 'it threw', ruleId: 'no-console', relativePath: 'src/b.ts' }],
    };
    report.scan.include = ['**/*.ts'];
    report.scan.exclude = ['dist/**'];
    report.selection = { quiet: false, baseline: { newIssues: 2, unchanged: 0, fixed: 0 } };
    report.gate = { status: 'failed', name: 'strict', message: 'errors 1 > 0 (fail)' };
  });
}

export function assertSound(report: Report): void {
  const { schema, consistency, problems } = validate(memorySource(JSON.stringify(report), 'scan'));
  assert.deepEqual([schema, consistency, problems], ['valid', 'valid', []]);
}
