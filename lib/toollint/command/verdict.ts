// The exit codes. If several apply, the order of precedence is 2, 3, 4, 1, 0.
import { summaryLines } from '../convert/converter.ts';
import { counted } from '../convert/plain-text.ts';
import { lintersOf } from '../document/extension.ts';
import { writeBaseline } from './baseline-input.ts';
import type { Judgment } from './judge.ts';
import { type ComparedReport, type OutputPlan, writeOutput } from './outputs.ts';
import { note, type ProgramIo } from './program-io.ts';

export const EXIT_OK = 0;
export const EXIT_FINDINGS = 1;
/** Usage, configuration, input, output or an internal error. As in ESLint, also a suppression that no longer occurs. */
export const EXIT_FAILURE = 2;
const EXIT_INCOMPLETE = 3;
const EXIT_NO_FILES = 4;
export const EXIT_INTERRUPTED = 130;
export const EXIT_OUTPUT_CLOSED = 141;

/** 'never-fail' makes the exit code 0, also for an incomplete analysis. */
type VerdictFlag = 'silent' | 'exit-zero' | 'allow-no-files' | 'fail-on-warning' | 'never-fail';
type VerdictFlags = Readonly<Partial<Record<VerdictFlag, boolean | undefined>>>;

export async function finish(
  plan: OutputPlan,
  values: VerdictFlags & { readonly baseline?: string | undefined },
  judgment: Judgment,
  io: ProgramIo,
  whole?: ComparedReport,
): Promise<number> {
  for (const text of judgment.notes) note(io, text);
  await writeOutput(plan, judgment.report, io, whole);
  await writeBaseline(values.baseline, judgment, io);
  return verdictOf(plan, values, judgment, io);
}

/** Prints the outcome and the reason for the exit code, unless a terminal already shows it or --silent is set. */
function verdictOf(plan: OutputPlan, flags: VerdictFlags, judgment: Judgment, io: ProgramIo): number {
  const [code, reason] = codeOf(judgment, flags);
  const isShown = plan.targets.some(({ format, file }) => file === undefined && format === 'pretty');
  if (flags.silent === true || (isShown && io.stdout.isTTY === true)) return code;
  if (!isShown) {
    const [first, ...rest] = summaryLines(judgment.report);
    const linters = lintersOf(judgment.report).map(({ name, version }) => `${name} ${version}`);
    for (const line of [[first, linters.join(', ')].filter(Boolean).join('; '), ...rest]) note(io, line);
  }
  if (reason !== undefined) note(io, `exit code ${code}: ${reason}`);
  return code;
}

function codeOf({ report, errors, unusedSuppressions }: Judgment, flags: VerdictFlags): [code: number, why?: string] {
  if (flags['never-fail'] === true) return [EXIT_OK];
  const { execution, gate } = report;
  if (unusedSuppressions > 0)
    return [EXIT_FAILURE, 'eslint-suppressions.json has entries that no longer occur: eslint --prune-suppressions'];
  if (execution.status === 'incomplete') return [EXIT_INCOMPLETE, 'the analysis is incomplete'];
  if (execution.status === 'no-files')
    return [flags['allow-no-files'] === true ? EXIT_OK : EXIT_NO_FILES, 'no files were analyzed'];
  const isGated = gate.status !== 'not-evaluated';
  const isBad = isGated ? gate.status === 'failed' : errors > 0;
  if (flags['exit-zero'] === true && isBad) return [EXIT_OK, '--exit-zero'];
  const isWarning = gate.status === 'warning' && flags['fail-on-warning'] === true && flags['exit-zero'] !== true;
  const total = errors === 0 ? 'no error finding' : counted(errors, 'error finding');
  return [isBad || isWarning ? EXIT_FINDINGS : EXIT_OK, isGated ? `the gate is ${gate.status}` : total];
}
