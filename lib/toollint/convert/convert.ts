// The formats that a report can be turned into, and the one way to do it. A converter gets the header and the findings
// batch by batch and writes text; none holds all findings, except JUnit when they are not in order.
import type { ReportSource } from '../document/report-source.ts';
import { type TextSink, writeReport } from '../document/report-writer.ts';
import type { Converter, ConvertOptions } from './convert-options.ts';
import { writeGithub } from './to-github.ts';
import { writeGitlab } from './to-gitlab.ts';
import { writeJunit } from './to-junit.ts';
import { writeMarkdown } from './to-markdown.ts';
import { writePretty } from './to-pretty.ts';
import { writeSarif } from './to-sarif.ts';
import { writeSonar } from './to-sonar.ts';
import { writeSummary } from './to-summary.ts';

const CONVERTERS = {
  report: writeReport,
  pretty: writePretty,
  sarif: writeSarif,
  gitlab: writeGitlab,
  junit: writeJunit,
  markdown: writeMarkdown,
  github: writeGithub,
  sonar: writeSonar,
  summary: writeSummary,
} satisfies Record<string, Converter>;

export type Format = keyof typeof CONVERTERS;

/** Names for `--format` and `--to`. */
export const FORMATS = Object.keys(CONVERTERS) as Format[];

export function isFormat(text: string): text is Format {
  return Object.hasOwn(CONVERTERS, text);
}

/** Writes the report in a format. */
export async function convert(
  report: ReportSource,
  format: Format,
  sink: TextSink,
  options: ConvertOptions = {},
): Promise<void> {
  const converter: Converter = CONVERTERS[format];
  await converter(report, sink, options);
}
