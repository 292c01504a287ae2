// Reads one source file for a scan. What cannot be read is a value with the reason, since one unreadable file must not
// end a scan of thousands.
//
// Fact: going through the thread pool for each small file took some 4 % of a scan, and linting is synchronous anyway.
// Choice: read at once. A pipe is opened without waiting for its writer.
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { errnoOf } from '../document/failure.ts';

/** The longest source that is read: a syntax tree takes many times the memory of its text. */
const SOURCE_BYTES_MAX = 32 << 20;

/** The text (invalid UTF-8 decoded as U+FFFD, byte order mark kept) or why there is none. */
export function readSource(absolute: string): { text: string } | { fault: string } {
  try {
    const file = openSync(absolute, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const status = fstatSync(file);
      if (!status.isFile()) return { fault: 'not a regular file' };
      if (status.size > SOURCE_BYTES_MAX)
        return { fault: `${status.size} bytes, more than the limit of ${SOURCE_BYTES_MAX}` };
      return { text: readFileSync(file, 'utf8') };
    } finally {
      closeSync(file);
    }
  } catch (cause) {
    return { fault: errnoOf(cause) ?? 'unreadable' };
  }
}
