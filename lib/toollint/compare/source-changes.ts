// The changes from a commit to the working tree according to git: renamed files, deleted files and changed lines.
import { lineAnchor } from '../document/fingerprint.ts';
import { git, trackedFiles } from '../document/git.ts';

export interface SourceChanges {
  readonly renames: ReadonlyMap<string, string>;
  readonly deleted: ReadonlySet<string>;
  readonly tracked: ReadonlySet<string>;
  /** Set if they begin at another commit than the baseline, which may have other lines. */
  readonly note?: string;
  hunksIn(path: string): readonly Hunk[];
}

type Range = Readonly<Record<'oldStart' | 'oldEnd' | 'newStart' | 'newEnd', number>>;
/** The ends are exclusive. */
export type Hunk = Range & { readonly removed: string[] };

/** Stands for changes that git does not show: of a file that it does not track or regards as binary. */
export const UNKNOWN: Hunk = { oldStart: Infinity, oldEnd: Infinity, newStart: 1, newEnd: Infinity, removed: [] };

/** `name` is the path of the folder in the report. Throws ReportFailure ('usage') for an unknown commit. */
export function changesSince(commit: string, folder: string, name = '.'): SourceChanges {
  const form = ['--no-ext-diff', '--no-color', '--no-textconv', '--unified=0', '--src-prefix=a/', '--dst-prefix=b/'];
  const what = ['--ignore-submodules=all', '--find-renames', '-l0', '--relative', '--end-of-options', commit, '--'];
  const prefix = name === '.' ? '' : `${name}/`;
  const tracked = Array.from(trackedFiles(folder), (path) => prefix + path.normalize('NFC'));
  return changesIn(git(folder, ['diff', ...form, ...what]), prefix, new Set(tracked));
}

function rangeOf(start: string | undefined, count = '1'): [start: number, end: number] {
  // If one side has no lines, git reports the number of the preceding line.
  const first = Number(start) + (count === '0' ? 1 : 0);
  return [first, first + Number(count)];
}

const HEADER = /^(\+\+\+ b\/|rename from |rename to |Binary files .* and b\/)(.*?)(?:\t|(?<=^Binary .*) differ)?$/su;

const ESCAPES = new Map(Object.entries({ a: '\u0007', b: '\b', t: '\t', n: '\n', v: '\v', f: '\f', r: '\r' }));

/** git quotes names that have a quotation mark, a backslash or a control character. */
const unquoted = (line: string) =>
  line.replace(/"((?:[^"\\]|\\.)*)"/gu, (_, name: string) =>
    name.replace(/\\(?:([0-7]{3})|(.))/gu, (__, octal: string | undefined, one: string) =>
      octal === undefined ? (ESCAPES.get(one) ?? one) : String.fromCharCode(Number.parseInt(octal, 8)),
    ),
  );

/** Parses `git diff --unified=0`. */
function changesIn(patch: string, prefix: string, tracked: ReadonlySet<string>): SourceChanges {
  const renames = new Map<string, string>();
  const deleted = new Set<string>();
  const files = new Map<string, Hunk[]>();
  let hunks: Hunk[] = [];
  let old = '';
  let content = 0;
  for (const line of patch.split('\n')) {
    // The content of a hunk may look like a header.
    if (content > 0 && /^[-+]/u.test(line)) {
      content -= 1;
      if (line.startsWith('-')) hunks.at(-1)?.removed.push(line.slice(1));
      continue;
    }
    const text = unquoted(line);
    const [, both] = /^diff --git a\/(.*) b\/\1$/su.exec(text) ?? [];
    const [, head, name = both ?? ''] = HEADER.exec(text) ?? [];
    const path = prefix + name.normalize('NFC');
    // A deleted file has no new path, so its hunks must not be added to the previous file.
    if (line.startsWith('diff --git ')) hunks = [];
    if (both !== undefined || head === 'rename from ') old = path;
    else if (head === 'rename to ') renames.set(old, path);
    else if (head !== undefined) files.set(path, head === '+++ b/' ? hunks : [UNKNOWN]);
    else if (line.startsWith('deleted file mode ')) deleted.add(old);
    const numbers = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/u.exec(line);
    if (numbers === null) continue;
    const [oldStart, oldEnd] = rangeOf(numbers[1], numbers[2]);
    const [newStart, newEnd] = rangeOf(numbers[3], numbers[4]);
    content = oldEnd - oldStart + newEnd - newStart;
    hunks.push({ oldStart, oldEnd, newStart, newEnd, removed: [] });
  }
  const hunksIn = (path: string) => files.get(path) ?? (tracked.has(path) ? [] : [UNKNOWN]);
  return { renames, deleted, tracked, hunksIn };
}

/** Returns the hunk that contains a current line, if there is one. */
export const hunkAt = (hunks: readonly Hunk[], line = 0): Hunk | undefined =>
  hunks.find(({ newStart, newEnd }) => line >= newStart && line < newEnd);

/**
 * Returns where an old line is now: its number, or the first line of the hunks that may have changed it, with its text.
 * A line of a baseline file has no number, but its anchor finds it among the lines that the hunks removed.
 */
export function oldPosition(hunks: readonly Hunk[], line: number | undefined, anchor: string | undefined) {
  const changed =
    line === undefined ? undefined : hunks.find(({ oldStart, oldEnd }) => line >= oldStart && line < oldEnd);
  if (line !== undefined && changed === undefined) {
    const before = hunks.findLast(({ oldEnd }) => oldEnd <= line);
    return { line: line + (before === undefined ? 0 : before.newEnd - before.oldEnd), hunks: [], removed: '' };
  }
  const inside = changed === undefined ? hunks.filter((hunk) => removedLines(hunk).has(anchor)) : [changed];
  const [first] = inside;
  return { line: first?.newStart, hunks: inside, removed: first && removedLines(first).get(anchor) };
}

const removed = new WeakMap<Hunk, ReadonlyMap<string | undefined, string>>();

/** The removed lines by their anchors, which are hashes. */
function removedLines(hunk: Hunk): ReadonlyMap<string | undefined, string> {
  const lines = removed.get(hunk) ?? new Map(hunk.removed.map((line) => [lineAnchor(line), line]));
  removed.set(hunk, lines);
  return lines;
}
