// Findings for a reader who may see only the first of them: errors, then warnings, then the rest. Each pass reads the
// report again, so that memory does not follow it.
import { SEVERITIES } from '../document/report-format.ts';
import type { Finding } from '../document/report-schema.ts';
import type { ReportSource } from '../document/report-source.ts';

/** The findings in batches, errors first, each severity in the order of the report. */
export async function* bySeverity({ header, findings }: ReportSource): AsyncGenerator<readonly Finding[]> {
  for (const severity of SEVERITIES) {
    if (header.summary.bySeverity[severity] === 0) continue;
    for await (const batch of findings()) yield batch.filter((finding) => finding.severity === severity);
  }
}
