// GitLab's Code Quality report: a JSON array of issues, `[]` when there are none, no byte order mark. Diagnostics are
// blockers.
import type { ConvertOptions } from './convert-options.ts';
import { hash } from 'node:crypto';
import { exportedIdentity } from './exported-identity.ts';
import { PARSE_ERROR_RULE } from '../document/finding-consistency.ts';
import type { Diagnostic, Finding, ReportHeader, Severity } from '../document/report-schema.ts';
import type { ReportSource } from '../document/report-source.ts';
import type { TextSink } from '../document/report-writer.ts';

const SEVERITIES: Readonly<Record<Severity, string>> = { error: 'critical', warning: 'major', info: 'info' };

/** Writes the array, one issue a line. */
export async function writeGitlab(
  { header, findings }: ReportSource,
  sink: TextSink,
  _options: ConvertOptions,
): Promise<void> {
  let separator = '[\n';
  // A run that did not reach its end may not look like a clean one.
  for (const [index, diagnostic] of header.execution.diagnostics.entries()) {
    await sink(separator + JSON.stringify(blockerOf(diagnostic, index)));
    separator = ',\n';
  }
  for await (const batch of findings()) {
    let text = '';
    for (const finding of batch) {
      text += separator + JSON.stringify(issueOf(finding, header));
      separator = ',\n';
    }
    if (text !== '') await sink(text);
  }
  await sink(separator === '[\n' ? '[]\n' : '\n]\n');
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
  const { ruleId, severity, message, location } = finding;
  return {
    description: message.toWellFormed(),
    check_name: ruleId,
    fingerprint: exportedIdentity(finding),
    severity: ruleId === PARSE_ERROR_RULE ? 'blocker' : SEVERITIES[severity],
    location: { path: location.path ?? scan.target?.path ?? '.', lines: { begin: location.line ?? 1 } },
  };
}
