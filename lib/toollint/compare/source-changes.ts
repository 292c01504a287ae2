// What git knows of the files between a commit and the working tree: which were renamed or deleted, and which lines
// are untouched. Paths are those of a report of the folder that git was asked in.
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
    return (
      await promisify(execFile)('git', ['-c', 'core.quotePath=false', ...args], { cwd, maxBuffer: OUTPUT_BYTES_MAX })
    ).stdout;
  } catch (cause) {
    const said: unknown = cause instanceof Error && 'stderr' in cause ? cause.stderr : undefined;
    const reason = typeof said === 'string' && said !== '' ? oneLine(said) : messageOf(cause);
    throw new ReportFailure('usage', `git ${args[0] ?? ''}: ${reason}`, cause);
  }
}

/**
 * What has changed since a commit, below the folder, which a report calls `name`. Throws ReportFailure ('usage') when
 * git does not know the commit.
 */
export async function changesSince(commit: string, folder: string, name = '.'): Promise<SourceChanges> {
  const form = ['--no-ext-diff', '--no-color', '--no-textconv', '--unified=0', '--src-prefix=a/', '--dst-prefix=b/'];
  const what = ['--find-renames', '-l0', '--relative', '--end-of-options', commit, '--'];
  return changesIn(await git(folder, ['diff', ...form, ...what]), name === '.' ? '' : `${name}/`);
}

interface Hunk {
  /** First old line behind the hunk, and by how much lines from there on have moved. */
  readonly oldEnd: number;
  readonly oldStart: number;
  readonly newStart: number;
  readonly newEnd: number;
}

/** From `git diff --unified=0`. A path that git writes in quotes is left out: nothing is known of it. */
function changesIn(patch: string, prefix: string): SourceChanges {
  const renames = new Map<string, string>();
  const deleted = new Set<string>();
  const files = new Map<string, Hunk[]>();
  let hunks: Hunk[] = [];
  let old = '';
  let content = 0;
  for (const line of patch.split('\n')) {
    // What a hunk holds may look like a header.
    if (content > 0 && /^[-+]/u.test(line)) {
      content -= 1;
      continue;
    }
    // The next file may be deleted, and then has no new path.
    if (line.startsWith('diff --git ')) hunks = [];
    const [, head, name = ''] = /^(--- a\/|\+\+\+ b\/|rename from |rename to )(.*?)\t?$/u.exec(line) ?? [];
    const path = prefix + name.normalize('NFC');
    if (head === '--- a/' || head === 'rename from ') old = path;
    else if (head === 'rename to ') renames.set(old, path);
    else if (head !== undefined) files.set(path, hunks);
    else if (line === '+++ /dev/null') deleted.add(old);
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
    renames,
    deleted,
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
