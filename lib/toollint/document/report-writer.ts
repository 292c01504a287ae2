// Writes a report in pieces, with one finding per line, because a document may be longer than the longest string.
// Members keep their order, including those that the specification does not name. Findings are written last.
import type { Report } from './report-schema.ts';

/** Writes a text. Resolves when the caller may write more. */
export type TextSink = (text: string) => Promise<void>;

const PIECE_UNITS = 1 << 16;

export function* reportText({ findings, ...header }: Report): Generator<string> {
  const members = Object.entries(header).map(([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)},\n`);
  yield `{\n${members.join('')}"findings": `;
  yield* listText(findings);
  yield '\n}\n';
}

export function* listText(elements: Iterable<unknown>): Generator<string> {
  let separator = '[\n';
  for (const element of elements) {
    yield separator + JSON.stringify(element);
    separator = ',\n';
  }
  yield separator === '[\n' ? '[]' : '\n]';
}

/** Joins small pieces into texts of about 64,000 characters. */
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
