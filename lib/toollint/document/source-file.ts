import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync, realpathSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { decoded } from './document-source.ts';
import { errnoOf } from './failure.ts';
import { trackedFiles } from './git.ts';

/** A syntax tree needs many times the memory of its source text. */
const SOURCE_BYTES_MAX = 32 << 20;

/**
 * Does not throw, because one unreadable file must not end a scan of thousands of files.
 *
 * Fact: the thread pool took about 4 % of the time of a scan of small files, and linting is synchronous anyway.
 * Choice: read synchronously. Because of O_NONBLOCK, opening a pipe does not wait for a writer.
 */
export function readSource(absolute: string): { bytes: Buffer } | { fault: string } {
  try {
    const file = openSync(absolute, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const status = fstatSync(file);
      if (!status.isFile()) return { fault: 'not a regular file' };
      if (status.size > SOURCE_BYTES_MAX)
        return { fault: `${status.size} bytes, more than the limit of ${SOURCE_BYTES_MAX}` };
      return { bytes: readFileSync(file) };
    } finally {
      closeSync(file);
    }
  } catch (cause) {
    return { fault: errnoOf(cause) ?? 'unreadable' };
  }
}

/** Reads files below the root that git tracks; returns '' for any other file. The root is a real path. */
export function trackedText(root: string, onFault: (cause: unknown) => unknown) {
  let tracked: ReadonlySet<string> = new Set();
  try {
    tracked = trackedFiles(root);
  } catch (cause) {
    onFault(cause);
  }
  return (path: string): string => {
    try {
      const real = realpathSync.native(join(root, path));
      const inside = relative(root, real).split(sep).join('/');
      // An index that git did not write may contain any path.
      if (!tracked.has(inside) || /(?:^|\/)(?:\.git|\.\.)(?:\/|$)/iu.test(inside)) return '';
      const source = readSource(real);
      return 'fault' in source ? '' : decoded(source.bytes);
    } catch {
      return '';
    }
  };
}

/** Returns a function that tells whether a path below the folder exists or cannot be checked. */
export const existsIn = (folder: string) => (path: string) => mayExist(join(folder, path));

export function mayExist(absolute: string): boolean {
  try {
    lstatSync(absolute);
    return true;
  } catch (cause) {
    return errnoOf(cause) !== 'ENOENT' && errnoOf(cause) !== 'ENOTDIR';
  }
}
