// Compares two reports: judges the second report with the first one as its baseline.
import type { BaselineEntry } from '../compare/baseline-file.ts';
import { type Comparison, doubtsIn } from '../compare/comparison.ts';
import type { DocumentSource } from '../document/document-source.ts';
import { linterOf } from '../document/extension.ts';
import { ReportFailure } from '../document/failure.ts';
import { openReport } from '../document/read-report.ts';
import type { Report } from '../document/report-schema.ts';
import { checkGateNeeds } from '../gate/gate.ts';
import { judge, type JudgeOptions, type Judgment } from './judge.ts';

export type CompareOptions = Pick<JudgeOptions, 'quiet' | 'gate' | 'changes'>;

export interface CompareOutcome extends Judgment {
  /** The current report with all findings, and with the execution, gate and selection of the comparison. */
  readonly current: Report;
  readonly comparison: Comparison;
}

/** Throws ReportFailure if the baseline cannot be used or the current report lists only new findings. */
export async function compare(
  base: DocumentSource,
  currentSource: DocumentSource,
  options: CompareOptions = {},
): Promise<CompareOutcome> {
  const { gate, changes } = options;
  checkGateNeeds(gate, true);
  const current = openReport(currentSource);
  if (current.selection.baseline !== undefined) {
    const message = `${currentSource.name} lists only what was new against a baseline; compare needs a full report`;
    throw new ReportFailure('input', message);
  }
  const { tool, scan, findings, summary, execution } = current;
  const errorsOnly = current.selection.quiet;
  const doubtIn = doubtsIn(current, typeof changes === 'string' ? undefined : changes?.deleted);
  const judged = await judge(
    {
      ...{ tool, linter: linterOf(current), findings, errorsOnly, scan, notes: [] },
      diagnostics: execution.diagnostics.filter(({ kind }) => kind !== 'no-files'),
      totalFiles: summary.totalFiles,
      exists: () => true,
      doubtsOf: (missing) => {
        const doubts = missing.map((entry) => [entry, doubtIn(entry.finding)] as const);
        return Promise.resolve(new Map(doubts.filter((one): one is [BaselineEntry, string] => one[1] !== undefined)));
      },
    },
    { ...options, quiet: options.quiet === true || errorsOnly, baseline: base },
  );
  const { comparison } = judged;
  if (comparison === undefined) throw new Error('a comparison has a baseline');
  const { report } = judged;
  const { parseErrors } = report.summary;
  return { ...judged, comparison, current: { ...current, ...report, findings, summary: { ...summary, parseErrors } } };
}
