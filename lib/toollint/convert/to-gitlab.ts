// Writes GitLab's Code Quality report: a JSON array of issues without a byte order mark. Diagnostics become blockers.
import { hash } from 'node:crypto';
import { PARSE_ERROR_RULE } from '../document/report-format.ts';
import type { Report } from '../document/report-schema.ts';
import { listText } from '../document/output-file.ts';
import { ownDiagnostics } from './converter.ts';

const SEVERITIES = { error: 'critical', warning: 'major', info: 'info' } as const;

export function* gitlabText(report: Report): Generator<string> {
  const blockers = ownDiagnostics(report).map(({ kind, message, ruleId, relativePath: path }, index) => ({
    description: message.toWellFormed(),
    check_name: ruleId ?? kind,
    fingerprint: hash('sha256', JSON.stringify(['diagnostic', kind, ruleId ?? '', path ?? '', index])),
    severity: 'blocker',
    location: { path: path ?? '.', lines: { begin: 1 } },
  }));
  const issues = report.findings.map(({ ruleId, severity, message, location, fingerprint, occurrence }) => ({
    description: message.toWellFormed(),
    check_name: ruleId,
    fingerprint: occurrence === 1 ? fingerprint : hash('sha256', `${fingerprint}:${occurrence}`),
    severity: ruleId === PARSE_ERROR_RULE ? 'blocker' : SEVERITIES[severity],
    location: { path: location.path ?? report.scan.target?.path ?? '.', lines: { begin: location.line ?? 1 } },
  }));
  yield* listText([...blockers, ...issues]);
  yield '\n';
}
