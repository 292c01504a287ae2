// A few lines that say how a scan went, for a log.
import type { ConvertOptions } from './convert-options.ts';
import { counted, terminalText } from './plain-text.ts';
import type { ReportHeader } from '../document/report-schema.ts';
import type { ReportSource } from '../document/report-source.ts';
import type { TextSink } from '../document/report-writer.ts';

/** Writes the lines. */
export async function writeSummary({ header }: ReportSource, sink: TextSink, _options: ConvertOptions): Promise<void> {
  await sink(`${summaryLines(header).join('\n')}\n`);
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
  if (baseline !== undefined)
    lines.push(`baseline: ${baseline.newIssues} new, ${baseline.unchanged} unchanged, ${baseline.fixed} fixed`);
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
