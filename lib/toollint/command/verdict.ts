// The exit codes. If several apply, the order of precedence is 2, 3, 4, 1, 0.
import { summaryLines } from '../convert/converter.ts';
import { counted } from '../convert/plain-text.ts';
import type { ReportHeader } from '../document/report-schema.ts';
import type { Judgment } from './judge.ts';
import type { OutputPlan } from './outputs.ts';
import { note, type ProgramIo } from './program-io.ts';

export const EXIT_OK = 0;
/** The gate failed (or, with --fail-on-warning, warned), there are errors and no gate, or a document is invalid. */
export const EXIT_FINDINGS = 1;
/**
 * Invalid usage, configuration, input or baseline, an output that cannot be written, or an internal error. As for
 * ESLint, also a suppression that no longer occurs.
 */
export const EXIT_FAILURE = 2;
const EXIT_INCOMPLETE = 3;
const EXIT_NO_FILES = 4;
export const EXIT_INTERRUPTED = 130;
export const EXIT_OUTPUT_CLOSED = 141;

/** 'never-fail' makes the exit code 0, also for an incomplete analysis. */
type VerdictFlag = 'silent' | 'exit-zero' | 'allow-no-files' | 'fail-on-warning' | 'never-fail';
type VerdictFlags = Readonly<Partial<Record<VerdictFlag, boolean | undefined>>>;

/**
 * Returns the exit code. Prints the outcome and the reason for the code on standard error, unless a terminal already
 * shows it or --silent is set.
 */
export function verdictOf(plan: OutputPlan, flags: VerdictFlags, judgment: Judgment, io: ProgramIo): number {
  const { report, errors, linter, unusedSuppressions } = judgment;
  const isConversion = flags['never-fail'] === true;
  const code = isConversion ? EXIT_OK : unusedSuppressions > 0 ? EXIT_FAILURE : codeOf(report, errors, flags);
  const isShown = plan.targets.some(({ format, file }) => file === undefined && format === 'pretty');
  if (flags.silent === true || (isShown && io.stdout.isTTY === true)) return code;
  if (!isShown) {
    const [first = '', ...rest] = summaryLines(report);
    note(io, linter === undefined ? first : `${first}; ${linter}`);
    for (const line of rest) note(io, line);
  }
  if (!isConversion) note(io, `exit code ${code}: ${reasonFor(code, report, errors)}`);
  return code;
}

function codeOf({ execution, gate }: ReportHeader, errors: number, flags: VerdictFlags): number {
  if (execution.status === 'incomplete') return EXIT_INCOMPLETE;
  if (execution.status === 'no-files') return flags['allow-no-files'] === true ? EXIT_OK : EXIT_NO_FILES;
  if (flags['exit-zero'] === true) return EXIT_OK;
  const { status } = gate;
  const isWarning = status === 'warning' && flags['fail-on-warning'] === true;
  return status === 'failed' || isWarning || (status === 'not-evaluated' && errors > 0) ? EXIT_FINDINGS : EXIT_OK;
}

function reasonFor(code: number, { execution, gate }: ReportHeader, errors: number): string {
  if (code === EXIT_FAILURE)
    return 'eslint-suppressions.json has entries that no longer occur: eslint --prune-suppressions';
  if (code === EXIT_INCOMPLETE) return 'the analysis is incomplete';
  if (code === EXIT_NO_FILES) return 'no files were analyzed';
  if (code === EXIT_FINDINGS)
    return gate.status === 'not-evaluated' ? counted(errors, 'error finding') : `the gate is ${gate.status}`;
  if (execution.status === 'no-files') return 'no files were analyzed, which --allow-no-files allows';
  if (gate.status === 'failed' || (gate.status === 'not-evaluated' && errors > 0)) return '--exit-zero';
  return gate.status === 'not-evaluated' ? 'no error finding' : `the gate is ${gate.status}`;
}
