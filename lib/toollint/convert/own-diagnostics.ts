// A file that does not parse is in a report twice: as a diagnostic, and as a finding that has a line. A converted
// format has it once.
import { PARSE_ERROR_RULE } from '../document/consistency.ts';
import type { Diagnostic, Report } from '../document/report-schema.ts';

/** The diagnostics that no finding stands for. */
export function ownDiagnostics({ execution, findings }: Pick<Report, 'execution' | 'findings'>): Diagnostic[] {
  const broken = new Set<string | undefined>();
  for (const { ruleId, location } of findings) if (ruleId === PARSE_ERROR_RULE) broken.add(location.path);
  return execution.diagnostics.filter(
    ({ kind, relativePath }) => kind !== 'parse-error' || relativePath === undefined || !broken.has(relativePath),
  );
}
