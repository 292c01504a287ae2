// The interface of a converter, and texts that several converters share.
import { countIn } from '../document/extension.ts';
import { PARSE_ERROR_RULE, SEVERITIES } from '../document/report-format.ts';
import type { BaselineCounts, Diagnostic, Finding, Report, ReportHeader } from '../document/report-schema.ts';
import { counted, terminalText } from './plain-text.ts';

export type Stated = { readonly finding: Finding; readonly state: 'new' | 'unchanged' | 'fixed' | undefined };

export interface ConvertOptions {
  readonly color?: boolean;
  readonly width?: number;
  /** The findings of a comparison. Default: those of the report, which are new if it lists only new findings. */
  readonly compared?: readonly Stated[];
  /** The maximum number of results of a SARIF log, of which the worst are kept. */
  readonly resultsMax?: number | undefined;
  /** The file to which SARIF attaches findings about the project. Default: the scanned folder. */
  readonly projectFile?: string | undefined;
  /** The base URL of the source code: `<links><path>#L<line>` shows a line. */
  readonly links?: string | undefined;
}

export type Converter = (report: Report, options: ConvertOptions) => Iterable<string>;

export function statedFindings({ findings, selection }: Report, { compared }: ConvertOptions): readonly Stated[] {
  const state = selection.baseline === undefined ? undefined : 'new';
  return compared ?? findings.map((finding) => ({ finding, state }));
}

export const bySeverity = ({ findings }: Pick<Report, 'findings'>): Finding[] =>
  SEVERITIES.flatMap((severity) => findings.filter((finding) => finding.severity === severity));

/** Returns the diagnostics without a finding: a report has both for a file that does not parse. */
export function ownDiagnostics({ execution, findings }: Pick<Report, 'execution' | 'findings'>): Diagnostic[] {
  const broken = new Set<string | undefined>();
  for (const { ruleId, location } of findings) if (ruleId === PARSE_ERROR_RULE) broken.add(location.path);
  return execution.diagnostics.filter(({ kind, relativePath }) => kind !== 'parse-error' || !broken.has(relativePath));
}

export const placesOf = ({ relativePath, ruleId }: Diagnostic) =>
  [relativePath, ruleId].filter((part) => part !== undefined);

export function baselineCounts(counts: BaselineCounts): string {
  const { newIssues, unchanged, fixed } = counts;
  const notVerifiable = countIn(counts, 'notVerifiable');
  const rest = notVerifiable > 0 ? `, ${notVerifiable} not verifiable` : '';
  return `${newIssues} new, ${unchanged} unchanged, ${fixed} fixed${rest}`;
}

export function summaryLines({ execution, summary, selection, gate }: ReportHeader): string[] {
  const { quiet, baseline } = selection;
  const { totalFiles, totalIssues, bySeverity } = summary;
  const { error, warning, info } = bySeverity;
  const suppressed = countIn(summary, 'suppressed');
  const counts = `${counted(error, 'error')}, ${counted(warning, 'warning')}, ${info} info`;
  const suppressions = suppressed > 0 ? `; ${suppressed} suppressed` : '';
  const failures = `${counted(summary.parseErrors, 'parse error')}, ${counted(summary.ruleErrors, 'rule error')}`;
  const verdict = ['gate', terminalText(gate.name ?? ''), gate.status].filter(Boolean).join(' ');
  const message = terminalText(gate.message ?? '');
  return [
    `${counted(totalFiles, 'file')}, ${counted(totalIssues, 'finding')}: ${counts}${suppressions}`,
    quiet ? 'only errors are listed' : '',
    baseline === undefined ? '' : `baseline: ${baselineCounts(baseline)}`,
    execution.status === 'incomplete' ? `incomplete: ${failures}` : '',
    execution.status === 'no-files' ? 'no files were analyzed' : '',
    gate.status === 'not-evaluated' ? '' : [verdict, message].filter(Boolean).join(': '),
  ].filter((line) => line !== '');
}
