import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync, realpathSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { errnoOf } from './failure.ts';

/** A syntax tree needs many times the memory of its source text. */
const SOURCE_BYTES_MAX = 32 << 20;

/**
 * Decodes invalid UTF-8 as U+FFFD and keeps a byte order mark. Does not throw, because one unreadable file must not
 * end a scan of thousands of files.
 *
 * Fact: the thread pool took about 4 % of the time of a scan of small files, and linting is synchronous anyway.
 * Choice: read synchronously. Because of O_NONBLOCK, opening a pipe does not wait for a writer.
 */
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

/** Returns '' if the file cannot be read or if its path, with links resolved, is outside the root. */
export function sourceBelow(root: string, path: string): string {
  try {
    const real = realpathSync.native(join(root, path));
    const inside = relative(realpathSync.native(root), real);
    if (inside === '..' || inside.startsWith(`..${sep}`)) return '';
    const source = readSource(real);
    return 'fault' in source ? '' : source.text;
  } catch {
    return '';
  }
}

export function mayExist(absolute: string): boolean {
  try {
    lstatSync(absolute);
    return true;
  } catch (cause) {
    return errnoOf(cause) !== 'ENOENT' && errnoOf(cause) !== 'ENOTDIR';
  }
}
