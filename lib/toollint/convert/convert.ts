// The formats that a report can be turned into, and the one way to do it. A converter gets the header and the findings
// batch by batch and writes text; none holds all findings, except JUnit when they are not in order. Each is loaded when
// it is asked for.
import type { ReportSource } from '../document/report-source.ts';
import { type TextSink, writeReport } from '../document/report-writer.ts';
import type { Converter, ConvertOptions } from './convert-options.ts';

const CONVERTERS = {
  report: () => writeReport,
  pretty: async () => (await import('./to-pretty.ts')).writePretty,
  sarif: async () => (await import('./to-sarif.ts')).writeSarif,
  gitlab: async () => (await import('./to-gitlab.ts')).writeGitlab,
  junit: async () => (await import('./to-junit.ts')).writeJunit,
  markdown: async () => (await import('./to-markdown.ts')).writeMarkdown,
  github: async () => (await import('./to-github.ts')).writeGithub,
  sonar: async () => (await import('./to-sonar.ts')).writeSonar,
  summary: async () => (await import('./to-summary.ts')).writeSummary,
} satisfies Record<string, () => Converter | Promise<Converter>>;

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
  const converter: Converter = await CONVERTERS[format]();
  await converter(report, sink, options);
}
