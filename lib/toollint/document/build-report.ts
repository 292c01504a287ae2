// Builds a report from findings and diagnostics, from which its numbers, counts and status follow.
import { SCHEMA_VERSION, SEVERITIES, TOOL_NAME, TOOL_VERSION } from './report-format.ts';
import type { Diagnostic, Finding, Report, Severity } from './report-schema.ts';

export const UNKNOWN_SCOPE = { scopeKnown: false, target: null, enabledRuleIds: [], include: [], exclude: [] };

/** The members, such as `linter`, extend the specification. */
export const ownTool = (members: object): Report['tool'] => ({ name: TOOL_NAME, version: TOOL_VERSION, ...members });

interface Contents extends Pick<Report, 'tool' | 'scan'> {
  readonly findings: readonly Finding[];
  readonly diagnostics: readonly Diagnostic[];
  readonly totalFiles: number;
  /** The number of suppressed results that an import left out. */
  readonly suppressed?: number;
}

/** The findings keep their order. The gate is not evaluated. */
export function buildReport({ tool, scan, totalFiles, suppressed = 0, ...contents }: Contents): Report {
  const failures = contents.diagnostics.filter(({ kind }) => kind !== 'no-files');
  const execution: Report['execution'] =
    failures.length === 0 && totalFiles === 0
      ? { status: 'no-files', diagnostics: [{ kind: 'no-files', message: 'no file to analyze was found' }] }
      : { status: failures.length === 0 ? 'complete' : 'incomplete', diagnostics: failures };
  const counts = new Map<string, number>();
  const findings = contents.findings.map((finding) => {
    const occurrence = (counts.get(finding.fingerprint) ?? 0) + 1;
    counts.set(finding.fingerprint, occurrence);
    return occurrence === finding.occurrence ? finding : { ...finding, occurrence };
  });
  const summary = summaryOf(totalFiles, findings, failures);
  return {
    ...{ schemaVersion: SCHEMA_VERSION, tool, execution, scan },
    ...{ selection: { quiet: false }, gate: { status: 'not-evaluated' } },
    summary: suppressed === 0 ? summary : Object.assign(summary, { suppressed }),
    findings,
  };
}

export function summaryOf(totalFiles: number, findings: readonly Finding[], diagnostics: readonly Diagnostic[]) {
  const [parseErrors, ruleErrors] = [countKind(diagnostics, 'parse-error'), countKind(diagnostics, 'rule-error')];
  return { totalFiles, totalIssues: findings.length, parseErrors, ruleErrors, bySeverity: countSeverities(findings) };
}

export const countKind = (diagnostics: readonly Diagnostic[], kind: Diagnostic['kind']): number =>
  diagnostics.filter((diagnostic) => diagnostic.kind === kind).length;

export function countSeverities(findings: readonly Finding[]): Record<Severity, number> {
  const counts = SEVERITIES.map((severity) => [severity, findings.filter((one) => one.severity === severity).length]);
  return Object.fromEntries(counts) as Record<Severity, number>;
}
