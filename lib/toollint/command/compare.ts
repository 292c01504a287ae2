import { resolve } from 'node:path';
import type { Stated } from '../convert/converter.ts';
import type { DocumentSource } from '../document/document-source.ts';
import { ReportFailure } from '../document/failure.ts';
import { openReport } from '../document/read-report.ts';
import type { Report } from '../document/report-schema.ts';
import { existsIn } from '../document/source-file.ts';
import { baselineSource, changesSinceBaseline } from './baseline-input.ts';
import { type Evidence, judge, type JudgeOptions } from './judge.ts';
import { gateFrom, inputsOf, inputSource, parseCommand, VERDICT_OPTIONS } from './options.ts';
import { planOutput } from './outputs.ts';
import type { ProgramIo } from './program-io.ts';
import { finish } from './verdict.ts';

export type CompareOptions = Pick<JudgeOptions, 'quiet' | 'gate' | 'changes' | 'signal'> & Pick<Evidence, 'exists'>;

export type CompareOutcome = Awaited<ReturnType<typeof compare>>;

/** Throws ReportFailure if the baseline cannot be used or the current report lists only new findings. */
export async function compare(baseline: DocumentSource, currentSource: DocumentSource, options: CompareOptions = {}) {
  const current = openReport(currentSource);
  const { findings, selection } = current;
  if (selection.baseline !== undefined) {
    const message = `${currentSource.name} lists only what was new against a baseline; compare needs a full report`;
    throw new ReportFailure('input', message);
  }
  const quiet = options.quiet === true || selection.quiet;
  const judged = await judge(current, options, { ...options, quiet, baseline });
  const { report, comparison } = judged;
  if (comparison === undefined) throw new Error('a comparison has a baseline');
  const summary = { ...current.summary, parseErrors: report.summary.parseErrors };
  /** The current report with all findings, and with the execution, gate and selection of the comparison. */
  const whole: Report = { ...current, ...report, findings, summary };
  return { ...judged, comparison, current: whole };
}

export async function runCompare(args: readonly string[], io: ProgramIo): Promise<number> {
  const { values, positionals } = parseCommand(args, VERDICT_OPTIONS);
  const [basePath = '', currentPath = ''] = inputsOf(positionals, 'toollint compare BASE CURRENT', 2, 2);
  const gate = gateFrom(values);
  const plan = await planOutput(values, io, positionals);
  const base = await baselineSource(basePath, io);
  const changes = changesSinceBaseline(base, resolve(io.cwd, basePath), values.renames, { root: io.cwd });
  const options = { quiet: values.quiet === true, gate, changes, exists: existsIn(io.cwd), signal: io.signal };
  const outcome = await compare(base, await inputSource(currentPath, io), options);
  const { comparison, current } = outcome;
  const news = new Set(comparison.news);
  const compared: Stated[] = [
    ...current.findings.map((finding): Stated => ({ finding, state: news.has(finding) ? 'new' : 'unchanged' })),
    ...comparison.fixed.map(({ finding }): Stated => ({ finding, state: 'fixed' })),
  ];
  return finish(plan, values, outcome, io, { report: current, compared });
}
