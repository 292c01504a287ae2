// The exit codes. If several apply, the order of precedence is 2, 3, 4, 1, 0.
import type { ReportHeader } from '../document/report-schema.ts';

export const EXIT_OK = 0;
/** The gate failed (or, with --fail-on-warning, warned), there are errors and no gate, or a document is invalid. */
export const EXIT_FINDINGS = 1;
/** Invalid usage, configuration, input or baseline, an output that cannot be written, or an internal error. */
export const EXIT_FAILURE = 2;
const EXIT_INCOMPLETE = 3;
const EXIT_NO_FILES = 4;
export const EXIT_INTERRUPTED = 130;
export const EXIT_OUTPUT_CLOSED = 141;

type ExitFlags = Readonly<Partial<Record<'exit-zero' | 'allow-no-files' | 'fail-on-warning', boolean>>>;

export function exitReason({ execution, gate }: ReportHeader, errors: number, code: number): string {
  if (code === EXIT_INCOMPLETE) return 'the analysis is incomplete';
  if (code === EXIT_NO_FILES) return 'no files were analyzed';
  if (code === EXIT_FINDINGS && gate.status === 'not-evaluated')
    return `${errors} error finding${errors === 1 ? '' : 's'}`;
  if (code === EXIT_FINDINGS) return `the gate is ${gate.status}`;
  if (execution.status === 'no-files') return 'no files were analyzed, which --allow-no-files allows';
  if (gate.status === 'failed' || (gate.status === 'not-evaluated' && errors > 0)) return '--exit-zero';
  return gate.status === 'not-evaluated' ? 'no error finding' : `the gate is ${gate.status}`;
}

/** `errors` is the number of error findings after the baseline. */
export function reportExitCode({ execution, gate }: ReportHeader, errors: number, flags: ExitFlags): number {
  if (execution.status === 'incomplete') return EXIT_INCOMPLETE;
  if (execution.status === 'no-files') return flags['allow-no-files'] === true ? EXIT_OK : EXIT_NO_FILES;
  if (flags['exit-zero'] === true) return EXIT_OK;
  const { status } = gate;
  const isWarning = status === 'warning' && flags['fail-on-warning'] === true;
  return status === 'failed' || isWarning || (status === 'not-evaluated' && errors > 0) ? EXIT_FINDINGS : EXIT_OK;
}
