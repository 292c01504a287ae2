import { existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Makes a folder and its missing parents, with `mode`. Throws the system's error.
 *
 * Fact: node's `recursive` never returns if a file system answers ENOENT although the parent exists, as /proc does.
 */
export function makeFolder(path: string, mode = 0o777): void {
  if (!existsSync(dirname(path))) makeFolder(dirname(path), mode);
  try {
    mkdirSync(path, { mode });
  } catch (cause) {
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) throw cause;
  }
}
