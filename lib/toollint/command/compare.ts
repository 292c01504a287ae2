// `toollint compare`, as a verb and as a function of the library: judges a report with a baseline file or an earlier
// report as its baseline.
import type { BaselineEntry } from '../compare/baseline-file.ts';
import { type Comparison, doubtsIn } from '../compare/comparison.ts';
import type { DocumentSource } from '../document/document-source.ts';
import { linterOf } from '../document/extension.ts';
import { ReportFailure } from '../document/failure.ts';
import { openReport } from '../document/read-report.ts';
import type { Report } from '../document/report-schema.ts';
import { changesSinceBaseline } from './baseline-input.ts';
import { judge, type JudgeOptions, type Judgment } from './judge.ts';
import { exactly, gateFrom, inputSource, parseCommand, VERDICT_OPTIONS } from './options.ts';
import { planOutput, writeOutput } from './outputs.ts';
import { note, type ProgramIo } from './program-io.ts';
import { verdictOf } from './verdict.ts';

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
  const { changes } = options;
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

export async function runCompare(args: readonly string[], io: ProgramIo): Promise<number> {
  const { values, positionals } = parseCommand(args, VERDICT_OPTIONS);
  const [basePath = '', currentPath = ''] = exactly(2, positionals, 'toollint compare BASE CURRENT');
  const gate = gateFrom(values);
  const plan = await planOutput(values, io, [basePath]);
  const base = await inputSource(basePath, io);
  const outcome = await compare(base, await inputSource(currentPath, io), {
    quiet: values.quiet === true,
    gate,
    changes: changesSinceBaseline(base, values.renames, { root: io.cwd }),
  });
  const { report, comparison, current } = outcome;
  for (const text of outcome.notes) note(io, text);
  const targets = Map.groupBy(plan.targets, ({ format }) => format === 'sarif' || format === 'html');
  await writeOutput({ ...plan, targets: targets.get(false) ?? [] }, report, io);
  const news = new Set(comparison.news);
  await writeOutput({ ...plan, targets: targets.get(true) ?? [] }, current, io, {
    baselineState: (finding) => (news.has(finding) ? 'new' : 'unchanged'),
    absent: comparison.fixed.map(({ finding }) => finding),
  });
  return verdictOf(plan, values, outcome, io);
}
