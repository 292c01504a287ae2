// Findings for a reader who may see only the first of them.
import { SEVERITIES } from '../document/report-format.ts';
import type { Finding, Report } from '../document/report-schema.ts';

/** Errors, then warnings, then the rest, each in the order of the report. */
export function bySeverity({ findings }: Pick<Report, 'findings'>): Finding[] {
  return SEVERITIES.flatMap((severity) => findings.filter((finding) => finding.severity === severity));
}
