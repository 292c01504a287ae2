// A few lines that say how a scan went, for a log; and the same with the findings, for the page of a CI job.
import type { Report } from '../document/report-schema.ts';
import type { ConvertOptions } from './convert-options.ts';
import { summaryLines } from './summary-lines.ts';
import { markdownText } from './to-markdown.ts';

/** The limit of GitHub's summary of a step. */
const STEP_BYTES_MAX = 1 << 20;

/** The lines; where links into the code are known, Markdown with them, for the page of a job. */
export function* summaryText(report: Report, options: ConvertOptions): Generator<string> {
  if (options.links === undefined) yield `${summaryLines(report).join('\n')}\n`;
  else yield* markdownText(report, { bytesMax: STEP_BYTES_MAX, ...options });
}
