// A report as text, one finding on a line, in pieces: a document may be longer than the longest string. Members keep
// the order that they have in the object, with the findings last, and those that the specification does not name are
// kept too (the reader has bounded their depth). The text ends with a line feed and has no byte order mark.
import type { Report } from './report-schema.ts';

/** Where text goes. The promise settles when more may be written. */
export type TextSink = (text: string) => Promise<void>;

const PIECE_UNITS = 1 << 16;

export function* reportText({ findings, ...header }: Report): Generator<string> {
  const members = Object.entries(header).map(([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)},\n`);
  yield `{\n${members.join('')}"findings": `;
  yield* listText(findings);
  yield '\n}\n';
}

/** A JSON array, one element on a line. */
export function* listText(elements: Iterable<unknown>): Generator<string> {
  let separator = '[\n';
  for (const element of elements) {
    yield separator + JSON.stringify(element);
    separator = ',\n';
  }
  yield separator === '[\n' ? '[]' : '\n]';
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
