// What git knows of the files between a commit and the working tree: which were renamed or deleted, and which lines
// are untouched. Paths are relative to the folder that git was asked in, as in a report of that folder.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { messageOf, oneLine, ReportFailure } from '../document/failure.ts';

const OUTPUT_BYTES_MAX = 512 << 20;

/** The changes since one commit. */
export interface SourceChanges {
  /** Old path -> new path. */
  readonly renames: ReadonlyMap<string, string>;
  readonly deleted: ReadonlySet<string>;
  /** Whether the line, numbered as it is now, was added or changed. The path is the present one. */
  isTouched(path: string, line: number): boolean;
  /** The present number of a line of the commit; undefined: it was changed or deleted. The path is the present one. */
  lineNow(path: string, line: number): number | undefined;
}

/** Runs git in a folder. Throws ReportFailure ('usage') with what git said. */
export async function git(cwd: string, args: readonly string[]): Promise<string> {
  try {
    return (await promisify(execFile)('git', [...args], { cwd, maxBuffer: OUTPUT_BYTES_MAX })).stdout;
  } catch (cause) {
    const said: unknown = cause instanceof Error && 'stderr' in cause ? cause.stderr : undefined;
    const reason = typeof said === 'string' && said !== '' ? oneLine(said) : messageOf(cause);
    throw new ReportFailure('usage', `git ${args[0] ?? ''}: ${reason}`, cause);
  }
}

/** What has changed since a commit, below the folder. Throws ReportFailure ('usage') when git does not know it. */
export async function changesSince(commit: string, folder: string): Promise<SourceChanges> {
  const from = ['--no-ext-diff', '--no-color', '--find-renames', '-l0', '--relative', '--end-of-options', commit, '--'];
  const [names, patch] = [
    await git(folder, ['diff', '--name-status', '-z', '--diff-filter=RD', ...from]),
    await git(folder, ['-c', 'core.quotePath=false', 'diff', '--no-textconv', '--unified=0', ...from]),
  ];
  return { ...changedFiles(names), ...changedLines(patch) };
}

/** From `git diff --name-status -z --diff-filter=RD`. */
function changedFiles(text: string): Pick<SourceChanges, 'renames' | 'deleted'> {
  const renames = new Map<string, string>();
  const deleted = new Set<string>();
  const fields = text.split('\0').map((field) => field.normalize('NFC'));
  for (let at = 0; at + 1 < fields.length;) {
    const [status = '', from = '', to = ''] = fields.slice(at, at + 3);
    const isRename = status.startsWith('R');
    if (isRename) renames.set(from, to);
    else deleted.add(from);
    at += isRename ? 3 : 2;
  }
  return { renames, deleted };
}

interface Hunk {
  /** First old line behind the hunk, and by how much lines from there on have moved. */
  readonly oldEnd: number;
  readonly oldStart: number;
  readonly newStart: number;
  readonly newEnd: number;
}

/** From `git diff --unified=0`. A path that git writes in quotes is left out: nothing is known of its lines. */
function changedLines(patch: string): Pick<SourceChanges, 'isTouched' | 'lineNow'> {
  const files = new Map<string, Hunk[]>();
  let hunks: Hunk[] = [];
  let content = 0;
  for (const line of patch.split('\n')) {
    // What a hunk holds may look like a header.
    if (content > 0 && /^[-+]/u.test(line)) {
      content -= 1;
      continue;
    }
    // The next file may be deleted, and then has no new path.
    if (line.startsWith('diff --git ')) hunks = [];
    const [, path] = /^\+\+\+ b\/(.*?)\t?$/u.exec(line) ?? [];
    if (path !== undefined) files.set(path.normalize('NFC'), (hunks = []));
    const numbers = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/u.exec(line);
    if (numbers === null) continue;
    const [oldStart = 0, oldCount = 1, newStart = 0, newCount = 1] = numbers
      .slice(1)
      .map((text: string | undefined) => (text === undefined ? undefined : Number(text)));
    content = oldCount + newCount;
    // Without lines on one side, that side's number is of the line before.
    hunks.push({
      oldStart: oldCount === 0 ? oldStart + 1 : oldStart,
      oldEnd: oldCount === 0 ? oldStart + 1 : oldStart + oldCount,
      newStart: newCount === 0 ? newStart + 1 : newStart,
      newEnd: newCount === 0 ? newStart + 1 : newStart + newCount,
    });
  }
  return {
    isTouched: (path, line) =>
      (files.get(path) ?? []).some(({ newStart, newEnd }) => line >= newStart && line < newEnd),
    lineNow: (path, line) => {
      let shift = 0;
      for (const { oldStart, oldEnd, newEnd } of files.get(path) ?? []) {
        if (line < oldStart) break;
        if (line < oldEnd) return undefined;
        shift = newEnd - oldEnd;
      }
      return line + shift;
    },
  };
}
