// Reads one source file for a scan. What cannot be read is a value with the reason, since one unreadable file must not
// end a scan of thousands.
import { open } from 'node:fs/promises';
import { errnoOf } from './failure.ts';

/** The longest source that is read. A parser takes some 50 bytes of memory for each of its bytes. */
export const SOURCE_BYTES_MAX = 32 << 20;

/** The text (invalid UTF-8 decoded as U+FFFD, byte order mark kept) or why there is none. */
export async function readSource(absolute: string): Promise<{ text: string } | { fault: string }> {
  try {
    const handle = await open(absolute, 'r');
    try {
      const status = await handle.stat();
      if (!status.isFile()) return { fault: 'not a regular file' };
      if (status.size > SOURCE_BYTES_MAX) return { fault: `${status.size} bytes, more than the limit of ${SOURCE_BYTES_MAX}` };
      return { text: await handle.readFile('utf8') };
    } finally {
      await handle.close();
    }
  } catch (error) {
    return { fault: errnoOf(error) ?? 'unreadable' };
  }
}
