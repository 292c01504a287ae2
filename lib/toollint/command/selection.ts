// From all findings to the report that is written: after the comparison come the gate, the quiet filter, the numbers
// and the summary. The quiet filter changes what is listed, never a count of the baseline, the gate or the exit code.
import { type Comparison, countsOf } from '../compare/comparison.ts';
import { summaryOf } from '../document/consistency.ts';
import { numberOccurrences } from '../document/finding-order.ts';
import type { Finding, Report, ReportHeader } from '../document/report-schema.ts';
import { evaluateGate, tallyOf } from '../gate/gate.ts';
import type { GateConfig } from '../gate/gate-config.ts';

interface SelectionRequest {
  readonly header: Pick<ReportHeader, 'schemaVersion' | 'tool' | 'execution' | 'scan'>;
  readonly totalFiles: number;
  readonly findings: readonly Finding[];
  readonly comparison?: Comparison | undefined;
  readonly gate?: GateConfig | undefined;
  /** List errors only. */
  readonly quiet: boolean;
  /** There are no others. */
  readonly errorsOnly?: boolean;
}

/** The report, and how many findings of severity error count, listed or not. */
export function selectedReport(request: SelectionRequest): { report: Report; errors: number } {
  const { header, totalFiles, comparison, quiet } = request;
  const { tool, execution, scan } = header;
  const counting = comparison?.news ?? request.findings;
  const tally = tallyOf(counting);
  const baseline = comparison === undefined ? undefined : countsOf(comparison);
  const gate = evaluateGate(request.gate, {
    tally,
    baseline,
    execution,
    totalFiles,
    quiet: request.errorsOnly === true,
    scan,
    tool,
    notVerifiable: comparison?.notVerifiable.length ?? 0,
  });
  const findings = counting.filter(({ severity }) => !quiet || severity === 'error').map((finding) => ({ ...finding }));
  numberOccurrences(findings);
  const report: Report = {
    ...header,
    selection: baseline === undefined ? { quiet } : { quiet, baseline },
    gate,
    summary: summaryOf(totalFiles, findings, execution.diagnostics),
    findings,
  };
  return { report, errors: tally.bySeverity.error };
}
