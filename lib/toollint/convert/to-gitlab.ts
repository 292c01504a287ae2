// Writes GitLab's Code Quality report: a JSON array of issues without a byte order mark. Diagnostics become blockers.
import { hash } from 'node:crypto';
import { PARSE_ERROR_RULE } from '../document/report-format.ts';
import type { Diagnostic, Finding, Report, ReportHeader, Severity } from '../document/report-schema.ts';
import { listText } from '../document/output-file.ts';
import { ownDiagnostics } from './converter.ts';

const SEVERITIES: Readonly<Record<Severity, string>> = { error: 'critical', warning: 'major', info: 'info' };

export function* gitlabText(report: Report): Generator<string> {
  const issues = [...ownDiagnostics(report).map(blockerOf), ...report.findings.map((one) => issueOf(one, report))];
  yield* listText(issues);
  yield '\n';
}

function blockerOf({ kind, message, ruleId, relativePath }: Diagnostic, index: number): Record<string, unknown> {
  return {
    description: message.toWellFormed(),
    check_name: ruleId ?? kind,
    fingerprint: hash('sha256', JSON.stringify(['diagnostic', kind, ruleId ?? '', relativePath ?? '', index])),
    severity: 'blocker',
    location: { path: relativePath ?? '.', lines: { begin: 1 } },
  };
}

function issueOf(finding: Finding, { scan }: ReportHeader): Record<string, unknown> {
  const { ruleId, severity, message, location, fingerprint, occurrence } = finding;
  return {
    description: message.toWellFormed(),
    check_name: ruleId,
    fingerprint: occurrence === 1 ? fingerprint : hash('sha256', `${fingerprint}:${occurrence}`),
    severity: ruleId === PARSE_ERROR_RULE ? 'blocker' : SEVERITIES[severity],
    location: { path: location.path ?? scan.target?.path ?? '.', lines: { begin: location.line ?? 1 } },
  };
}
