// Writes a report as text, one finding a line, without holding it: a document may be longer than the longest string.
// The members stand in the specification's order; members that it does not name follow, sorted, as they were read (the
// reader has bounded their depth). The text ends with a line feed and has no byte order mark.
import { byCodeUnits } from './report-path.ts';
import { type Finding, findingSchema, HEADER_NAMES, headerProperties, type ReportHeader } from './report-schema.ts';
import type { ReportSource } from './report-source.ts';
import type { TSchema } from '@sinclair/typebox';

/** Where text goes. The promise settles when more may be written. */
export type TextSink = (text: string) => Promise<void>;

const BATCH_UNITS = 1 << 16;

/** Writes the whole document. */
export async function writeReport(report: ReportSource, sink: TextSink): Promise<void> {
  await sink(headerText(report.header));
  let batch = '';
  let separator = '\n';
  for await (const lines of report.findingLines?.() ?? linesOf(report)) {
    for (const line of lines) {
      batch += separator + line;
      separator = ',\n';
      if (batch.length < BATCH_UNITS) continue;
      await sink(batch);
      batch = '';
    }
  }
  await sink(`${batch}${separator === '\n' ? '' : '\n'}]\n}\n`);
}

async function* linesOf(report: ReportSource): AsyncGenerator<readonly string[]> {
  for await (const findings of report.findings()) yield findings.map(findingLine);
}

/** Everything up to the opening bracket of `findings`, two members' worth of indentation kept small for diffs. */
export function headerText(header: ReportHeader): string {
  const lines = HEADER_NAMES.map(
    (name) => `"${name}": ${JSON.stringify(inOrder(headerProperties[name], header[name]))},\n`,
  );
  return `{\n${lines.join('')}"findings": [`;
}

/** One finding as it stands in the document, without separator. */
export function findingLine(finding: Finding): string {
  return JSON.stringify(inOrder(findingSchema, finding));
}

/** The value with its members in the schema's order, unknown ones behind. */
function inOrder(schema: TSchema | undefined, value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    const items = schema?.['items'] as TSchema | undefined;
    return items?.['properties'] === undefined ? value : value.map((element) => inOrder(items, element));
  }
  const variants = (schema?.['anyOf'] as TSchema[] | undefined) ?? [schema];
  const named = (variants.find((variant) => variant?.['properties'] !== undefined)?.['properties'] ?? {}) as Record<
    string,
    TSchema
  >;
  const members = value as Record<string, unknown>;
  const known = Object.keys(named).filter((name) => Object.hasOwn(members, name));
  const unknown = Object.keys(members)
    .filter((name) => !Object.hasOwn(named, name))
    .sort(byCodeUnits);
  return Object.fromEntries([...known, ...unknown].map((name) => [name, inOrder(named[name], members[name])]));
}
