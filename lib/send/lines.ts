// Splits a byte stream into lines without changing their bytes. Skips blank lines and a byte order mark at the start.
// At most one line and one chunk are in memory.

/** `number` starts at 1 and includes blank lines. `isOpen`: no line feed follows. */
export interface Line {
  readonly number: number;
  readonly bytes: Buffer;
  readonly isOpen?: boolean;
}

const LINE_FEED = 0x0a;
const BYTE_ORDER_MARK = Buffer.from('\ufeff');

/** No gateway accepts a longer event. */
const EVENT_BYTES_MAX = 64 * 1024 * 1024;

/** The lines of a journal and of a refused file contain any event, with escapes. V8's strings are not longer. */
export const ROW_BYTES_MAX = 2 ** 29;

export async function* lines(chunks: AsyncIterable<Buffer>, bytesMax = EVENT_BYTES_MAX): AsyncGenerator<Line> {
  let number = 0;
  const unmarked = (bytes: Buffer): Buffer =>
    number === 0 && bytes.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK)
      ? bytes.subarray(BYTE_ORDER_MARK.length)
      : bytes;
  let begun: Buffer[] = [];
  let begunBytes = 0;
  for await (const chunk of chunks) {
    let from = 0;
    for (let at = chunk.indexOf(LINE_FEED); at !== -1; at = chunk.indexOf(LINE_FEED, from)) {
      const rest = chunk.subarray(from, at);
      const bytes = unmarked(begun.length === 0 ? rest : Buffer.concat([...begun, rest]));
      begun = [];
      begunBytes = 0;
      from = at + 1;
      number += 1;
      if (!blank(bytes)) yield { number, bytes };
    }
    if (from === chunk.length) continue;
    begun.push(chunk.subarray(from));
    begunBytes += chunk.length - from;
    if (begunBytes > bytesMax) throw new Error(`line ${number + 1} is longer than ${bytesMax} bytes`);
  }
  const bytes = unmarked(Buffer.concat(begun));
  if (!blank(bytes)) yield { number: number + 1, bytes, isOpen: true };
}

/** True if the line contains only the white space of JSON (RFC 8259, section 2). */
const blank = (bytes: Buffer): boolean => bytes.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d);
