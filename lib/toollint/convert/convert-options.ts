// What every converter is given, and what it may be told.
import type { Finding, Report } from '../document/report-schema.ts';

/** What a converter may be told. */
export interface ConvertOptions {
  /** Terminal colours. Default: none. */
  readonly color?: boolean;
  /** Terminal columns. Default: 80. */
  readonly width?: number;
  /** Most findings in a Markdown table. Default: 100. */
  readonly limit?: number;
  /** Most bytes of a Markdown text. Default: 65,536, the limit of a comment on GitHub. */
  readonly bytesMax?: number;
  /** Most results of a SARIF log, errors first. Default: all. */
  readonly resultsMax?: number;
  /** SARIF's baselineState of each finding. Default: 'new' for all where the report is a delta. */
  readonly baselineState?: (finding: Finding) => 'new' | 'unchanged';
  /** Findings that were fixed, for SARIF's baselineState 'absent'. */
  readonly absent?: readonly Finding[];
  /** Where the code is on the web: `<links><path>#L<line>` shows a line. */
  readonly links?: string | undefined;
}

/** The text of a report in one format, in pieces. */
export type Converter = (report: Report, options: ConvertOptions) => Iterable<string>;
