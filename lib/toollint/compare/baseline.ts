// A baseline: the known findings, read from a report or a baseline file. An invalid baseline is refused: if it were
// read as empty, every finding would be new.
import type { DocumentSource } from '../document/document-source.ts';
import { type Linter, linterOf } from '../document/extension.ts';
import { ReportFailure } from '../document/failure.ts';
import { isOurs, placeHalf } from '../document/fingerprint.ts';
import { openReport } from '../document/read-report.ts';
import { PARSE_ERROR_RULE } from '../document/report-format.ts';
import type { Finding, ReportHeader } from '../document/report-schema.ts';
import { type BaselineEntry, isBaselineFile, readBaselineFile } from './baseline-file.ts';

export interface Baseline {
  readonly entries: readonly BaselineEntry[];
  /** Entries whose acceptance has expired, so that their findings are new. */
  readonly expired: readonly BaselineEntry[];
  readonly errorsOnly: boolean;
  readonly notes: string[];
}

interface BaselineUser {
  readonly tool: ReportHeader['tool'];
  readonly quiet: boolean;
  readonly today: string;
}

/** `renames` maps old paths to new ones. Throws ReportFailure if the baseline cannot be used. */
export function readBaseline(
  source: DocumentSource,
  user: BaselineUser,
  renames: ReadonlyMap<string, string> = new Map(),
): Baseline {
  const { entries, linter, errorsOnly, notes } = isBaselineFile(source)
    ? { ...readBaselineFile(source), errorsOnly: false, notes: [] as string[] }
    : readFromReport(source, user);
  const own = linterOf(user);
  if (linter !== undefined && own !== undefined && majorOf(linter) !== majorOf(own))
    notes.push(`the baseline ${source.name} is of ${majorOf(linter)}, this is ${majorOf(own)}`);
  const isExpired = ({ accepted }: BaselineEntry) => accepted?.until !== undefined && accepted.until < user.today;
  const moved = entries.map((entry) => ({ ...entry, finding: renamed(entry.finding, renames) }));
  const { true: expired = [], false: valid = [] } = Object.groupBy(moved, (entry) => `${isExpired(entry)}`);
  return { entries: valid, expired, errorsOnly, notes };
}

/** A parse error is always new unless it was accepted. */
export function isNeverBaselined({ ruleId }: Pick<Finding, 'ruleId'>): boolean {
  return ruleId === PARSE_ERROR_RULE;
}

export function majorOf({ name, version }: Linter): string {
  return `${name} ${version.split('.')[0] ?? ''}`.trim();
}

export function renamed(finding: Finding, renames: ReadonlyMap<string, string>): Finding {
  const { location } = finding;
  const path = location.path === undefined ? undefined : renames.get(location.path);
  if (path === undefined || location.scope !== 'file') return finding;
  const fingerprint = isOurs(finding)
    ? finding.fingerprint.slice(0, 32) + placeHalf('file', path)
    : finding.fingerprint;
  return { ...finding, fingerprint, location: { ...location, path } };
}

function readFromReport(source: DocumentSource, user: BaselineUser) {
  const report = openReport(source);
  const { tool, execution, selection } = report;
  const refuse = (fault: string): never => {
    throw new ReportFailure('baseline', `the baseline ${source.name} cannot be used: ${fault}`);
  };
  if (tool.name !== user.tool.name) refuse(`it was written by ${tool.name}, not by ${user.tool.name}`);
  if (execution.status === 'no-files') refuse('its scan found no files');
  if (selection.baseline !== undefined) refuse('it lists only what was new against another baseline');
  const errorsOnly = selection.quiet;
  if (errorsOnly && !user.quiet) refuse('it lists errors only; compare with --quiet or make a full one');
  const counts = (finding: Finding) => !isNeverBaselined(finding) && (!errorsOnly || finding.severity === 'error');
  const entries = report.findings.filter(counts).map((finding): BaselineEntry => ({ finding }));
  const isIncomplete = execution.status === 'incomplete';
  const note = `the baseline ${source.name} is incomplete: findings in the files that it missed may look new`;
  return { entries, linter: linterOf(report), errorsOnly, notes: isIncomplete ? [note] : [] };
}
