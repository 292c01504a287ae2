// The order of findings and their occurrence numbers. Strings are compared by code units, so the locale does not
// change a report.
import type { Finding } from './report-schema.ts';
import { byCodeUnits } from './report-path.ts';

/** Findings about the project come first, because they have no path. */
export function compareFindings(left: Finding, right: Finding): number {
  return (
    byCodeUnits(left.location.path ?? '', right.location.path ?? '') ||
    (left.location.line ?? 0) - (right.location.line ?? 0) ||
    (left.location.column ?? 0) - (right.location.column ?? 0) ||
    byCodeUnits(left.ruleId, right.ruleId) ||
    byCodeUnits(left.fingerprint, right.fingerprint) ||
    byCodeUnits(left.message, right.message) ||
    byCodeUnits(left.severity, right.severity) ||
    byCodeUnits(restOf(left), restOf(right))
  );
}

function restOf(finding: Finding): string {
  const { suggestion, codeSnippet, category, issueType, standardIds, docsUrl, location } = finding;
  return JSON.stringify([location.scope, suggestion, codeSnippet, category, issueType, standardIds, docsUrl]);
}

export function numberOccurrences(findings: readonly Finding[]): void {
  const seen = new Map<string, number>();
  for (const finding of findings) {
    const occurrence = (seen.get(finding.fingerprint) ?? 0) + 1;
    seen.set(finding.fingerprint, occurrence);
    finding.occurrence = occurrence;
  }
}
