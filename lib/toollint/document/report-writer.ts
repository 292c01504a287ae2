// A report as text, one finding on a line, in pieces: a document may be longer than the longest string. The members are
// in the specification's order; members that it does not name follow, sorted, as they were read (the reader has bounded
// their depth). The text ends with a line feed and has no byte order mark.
import { FINDING_ORDER, HEADER_NAMES, HEADER_ORDER, type MemberOrder } from './report-format.ts';
import { byCodeUnits } from './report-path.ts';
import type { Finding, Report, ReportHeader } from './report-schema.ts';

/** Where text goes. The promise settles when more may be written. */
export type TextSink = (text: string) => Promise<void>;

const PIECE_UNITS = 1 << 16;

export function* reportText(report: Report): Generator<string> {
  yield headerText(report);
  let separator = '\n';
  for (const finding of report.findings) {
    yield separator + findingLine(finding);
    separator = ',\n';
  }
  yield `${separator === '\n' ? '' : '\n'}]\n}\n`;
}

/** Writes pieces of any size, joined to some 64,000 characters. */
export async function writePieces(pieces: Iterable<string>, sink: TextSink): Promise<void> {
  let joined = '';
  for (const piece of pieces) {
    joined += piece;
    if (joined.length < PIECE_UNITS) continue;
    await sink(joined);
    joined = '';
  }
  if (joined !== '') await sink(joined);
}

/** Everything up to the opening bracket of `findings`. */
function headerText(header: ReportHeader): string {
  const lines = HEADER_NAMES.map(
    (name) => `"${name}": ${JSON.stringify(inOrder(HEADER_ORDER[name], header[name]))},\n`,
  );
  return `{\n${lines.join('')}"findings": [`;
}

/** One finding as it is in the document, without separator. */
function findingLine(finding: Finding): string {
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
