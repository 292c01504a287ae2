// The output formats. Each converter is loaded on demand.
import type { Report } from '../document/report-schema.ts';
import { reportText, type TextSink, writePieces } from '../document/output-file.ts';
import { type Converter, type ConvertOptions } from './converter.ts';

const CONVERTERS = {
  report: () => reportText,
  pretty: async () => (await import('./to-pretty.ts')).prettyText,
  sarif: async () => (await import('./to-sarif.ts')).sarifText,
  gitlab: async () => (await import('./to-gitlab.ts')).gitlabText,
  junit: async () => (await import('./to-junit.ts')).junitText,
  markdown: async () => (await import('./to-markdown.ts')).markdownText,
  html: async () => (await import('./to-html.ts')).htmlText,
  github: async () => (await import('./to-github.ts')).githubText,
} satisfies Record<string, () => Converter | Promise<Converter>>;

export type Format = keyof typeof CONVERTERS;

export const FORMATS = Object.keys(CONVERTERS) as Format[];

export const isFormat = (text: string): text is Format => Object.hasOwn(CONVERTERS, text);

export async function convert(report: Report, format: Format, sink: TextSink, options: ConvertOptions = {}) {
  const converter: Converter = await CONVERTERS[format]();
  await writePieces(converter(report, options), sink);
}
