// How a scan went, in a few lines.
import type { BaselineCounts, ReportHeader } from '../document/report-schema.ts';
import { counted, terminalText } from './plain-text.ts';

/** The counts of a comparison; all but the first add up to the baseline. */
export function baselineCounts(counts: BaselineCounts): string {
  const { newIssues, unchanged, fixed } = counts;
  const { notVerifiable } = counts as { notVerifiable?: unknown };
  const rest = typeof notVerifiable === 'number' ? `, ${notVerifiable} not verifiable` : '';
  return `${newIssues} new, ${unchanged} unchanged, ${fixed} fixed${rest}`;
}

/** What is worth saying, a line for each thing. */
export function summaryLines({ execution, summary, selection, gate }: ReportHeader): string[] {
  const { error, warning, info } = summary.bySeverity;
  const lines = [
    `${counted(summary.totalFiles, 'file')}, ${counted(summary.totalIssues, 'finding')}: ` +
      `${counted(error, 'error')}, ${counted(warning, 'warning')}, ${info} info`,
  ];
  if (selection.quiet) lines.push('only errors are listed');
  const { baseline } = selection;
  if (baseline !== undefined) lines.push(`baseline: ${baselineCounts(baseline)}`);
  if (execution.status === 'incomplete') {
    lines.push(
      `incomplete: ${counted(summary.parseErrors, 'parse error')}, ${counted(summary.ruleErrors, 'rule error')}`,
    );
  }
  if (execution.status === 'no-files') lines.push('no files were analysed');
  if (gate.status !== 'not-evaluated') {
    const message = gate.message === undefined ? '' : `: ${terminalText(gate.message)}`;
    lines.push(`gate ${terminalText(gate.name ?? '')} ${gate.status}${message}`.replace('gate  ', 'gate '));
  }
  return lines;
}
