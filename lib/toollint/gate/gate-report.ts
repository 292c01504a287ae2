// Evaluates a gate on a report that exists. Its old verdict is replaced; everything else stays as it is.
import { evaluateGate, tallyOf } from './gate.ts';
import type { GateConfig } from './gate-config.ts';
import type { ReportSource } from '../document/report-source.ts';

/**
 * The report with its gate evaluated, and the errors that it lists. Throws ReportFailure when it cannot be evaluated.
 */
export async function gate(
  report: ReportSource,
  config: GateConfig,
): Promise<{ report: ReportSource; errors: number }> {
  const { header } = report;
  const tally = await tallyOf(report.findings());
  const verdict = evaluateGate(config, {
    tally,
    baseline: header.selection.baseline,
    execution: header.execution,
    totalFiles: header.summary.totalFiles,
    quiet: header.selection.quiet,
    scan: header.scan,
    tool: header.tool,
  });
  return {
    report: { header: { ...header, gate: verdict }, findings: () => report.findings() },
    errors: tally.bySeverity.error,
  };
}
