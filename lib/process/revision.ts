// Finds the revision of the source code in the manifest of a package or in the HEAD of a clone.
//
// Running git would add 5 ms to startup, and git may not be installed, so this file reads git's files
// (gitrepository-layout(5)).
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const DIGITS = 12;

/** Returns the first 12 digits of the commit's hash, or `unreleased` if `root` is neither a package nor a clone. */
export function revisionOf(root: string): string {
  const { revision } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { readonly revision?: string };
  return revision ?? headOf(root)?.slice(0, DIGITS) ?? 'unreleased';
}

function headOf(root: string): string | undefined {
  // In a worktree, .git is a file that contains the path of a folder. `commondir` in that folder contains the path of
  // the shared folder.
  const folder = resolve(root, read(join(root, '.git'))?.replace('gitdir: ', '') ?? '.git');
  const head = read(join(folder, 'HEAD'));
  if (head?.startsWith('ref: ') !== true) return head;
  const name = head.slice('ref: '.length);
  const shared = resolve(folder, read(join(folder, 'commondir')) ?? '');
  const packed = read(join(shared, 'packed-refs'))?.split('\n');
  return read(join(shared, name)) ?? packed?.find((line) => line.endsWith(` ${name}`));
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return undefined;
  }
}
