// Writes a report as text, one finding a line, without holding it: a document may be longer than the longest string.
// The members stand in the specification's order; members that it does not name follow, sorted, as they were read (the
// reader has bounded their depth). The text ends with a line feed and has no byte order mark.
import { FINDING_ORDER, HEADER_NAMES, HEADER_ORDER, type MemberOrder } from './report-format.ts';
import { byCodeUnits } from './report-path.ts';
import type { Finding, ReportHeader } from './report-schema.ts';
import type { ReportSource } from './report-source.ts';

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
function headerText(header: ReportHeader): string {
  const lines = HEADER_NAMES.map(
    (name) => `"${name}": ${JSON.stringify(inOrder(HEADER_ORDER[name], header[name]))},\n`,
  );
  return `{\n${lines.join('')}"findings": [`;
}

/** One finding as it stands in the document, without separator. */
export function findingLine(finding: Finding): string {
  return JSON.stringify(inOrder(FINDING_ORDER, finding));
}

/** The value with its members in that order, others behind. */
function inOrder(order: MemberOrder, value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    return Object.keys(order).length === 0 ? value : value.map((element) => inOrder(order, element));
  }
  const members = value as Record<string, unknown>;
  const known = Object.keys(order).filter((name) => Object.hasOwn(members, name));
  const others = Object.keys(members).filter((name) => !Object.hasOwn(order, name));
  return Object.fromEntries(
    [...known, ...others.sort(byCodeUnits)].map((name) => [name, inOrder(orderOf(order, name), members[name])]),
  );
}

function orderOf(order: MemberOrder, name: string): MemberOrder {
  return Object.hasOwn(order, name) ? (order[name] ?? {}) : {};
}
