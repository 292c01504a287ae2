// Which revision of the source a program is: what the package's manifest says, else git's HEAD of a clone.
//
// Fact: a child process costs a start 5 ms and git need not be installed. Choice: git's files are read (gitrepository-
// layout(5)).
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const DIGITS = 12;

/** The first 12 digits of the commit's hash; `unreleased` where `root` is neither of a package nor of a clone. */
export function revisionOf(root: string): string {
  const { revision } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { readonly revision?: string };
  return revision ?? headOf(root)?.slice(0, DIGITS) ?? 'unreleased';
}

function headOf(root: string): string | undefined {
  // A worktree has a file that names its folder, which names the one that holds the references.
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
