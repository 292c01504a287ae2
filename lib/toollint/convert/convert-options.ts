// What every converter is given, and what it may be told.
import type { ReportSource } from '../document/report-source.ts';
import type { TextSink } from '../document/report-writer.ts';

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
  /** SARIF's baselineState of each finding by its index. Default: 'new' for all where the report is a delta. */
  readonly baselineState?: (index: number) => 'new' | 'unchanged';
}

/** Writes a report in one format. */
export type Converter = (report: ReportSource, sink: TextSink, options: ConvertOptions) => Promise<void>;
