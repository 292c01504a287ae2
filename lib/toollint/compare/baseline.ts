// A baseline: the known findings, read from a report or a baseline file. An invalid baseline is refused: if it were
// read as empty, every finding would be new.
import { PARSE_ERROR_RULE } from '../document/consistency.ts';
import type { DocumentSource } from '../document/document-source.ts';
import { type Linter, linterOf } from '../document/extension.ts';
import { ReportFailure } from '../document/failure.ts';
import { placeHalf } from '../document/fingerprint.ts';
import { openReport } from '../document/read-report.ts';
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
  readonly linter?: Linter | undefined;
  readonly quiet: boolean;
  /** The date as YYYY-MM-DD. */
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
  if (linter !== undefined && user.linter !== undefined && majorOf(linter) !== majorOf(user.linter))
    notes.push(`the baseline ${source.name} is of ${majorOf(linter)}, this is ${majorOf(user.linter)}`);
  const isExpired = ({ accepted }: BaselineEntry) => accepted?.until !== undefined && accepted.until < user.today;
  const moved = entries.map((entry) => ({ ...entry, finding: renamed(entry.finding, renames) }));
  return {
    entries: moved.filter((entry) => !isExpired(entry)),
    expired: moved.filter(isExpired),
    errorsOnly,
    notes,
  };
}

/** A parse error is always new unless it was accepted. */
export function isNeverBaselined({ ruleId }: Pick<Finding, 'ruleId'>): boolean {
  return ruleId === PARSE_ERROR_RULE;
}

/** Returns a text such as 'ESLint 10'. */
export function majorOf({ name, version }: Linter): string {
  return `${name} ${version.split('.')[0] ?? ''}`.trim();
}

/** Moves a finding to the new path of its file and updates the place half of its fingerprint. */
export function renamed(finding: Finding, renames: ReadonlyMap<string, string>): Finding {
  const { location, fingerprint } = finding;
  const path = location.path === undefined ? undefined : renames.get(location.path);
  if (path === undefined || location.scope !== 'file') return finding;
  const isOurs = fingerprint.length === 64 && fingerprint.endsWith(placeHalf('file', location.path ?? ''));
  const moved = isOurs ? fingerprint.slice(0, 32) + placeHalf('file', path) : fingerprint;
  return { ...finding, fingerprint: moved, location: { ...location, path } };
}

function readFromReport(source: DocumentSource, user: BaselineUser) {
  const report = openReport(source);
  const fault = faultOf(report, user);
  if (fault !== undefined) throw new ReportFailure('baseline', `the baseline ${source.name} cannot be used: ${fault}`);
  const errorsOnly = report.selection.quiet;
  const counts = (finding: Finding) => !isNeverBaselined(finding) && (!errorsOnly || finding.severity === 'error');
  const entries = report.findings.filter(counts).map((finding): BaselineEntry => ({ finding }));
  return { entries, linter: linterOf(report), errorsOnly, notes: notesOn(report, source.name) };
}

function faultOf(header: ReportHeader, user: BaselineUser): string | undefined {
  if (header.tool.name !== user.tool.name) return `it was written by ${header.tool.name}, not by ${user.tool.name}`;
  if (header.execution.status === 'no-files') return 'its scan found no files';
  if (header.selection.baseline !== undefined) return 'it lists only what was new against another baseline';
  if (header.selection.quiet && !user.quiet) return 'it lists errors only; compare with --quiet or make a full one';
  return undefined;
}

function notesOn({ execution }: ReportHeader, name: string): string[] {
  if (execution.status !== 'incomplete') return [];
  return [`the baseline ${name} is incomplete: findings in the files that it missed may look new`];
}
