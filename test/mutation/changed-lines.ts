// The lines of lib that were changed since a commit. A line that only moved, within its file or from another one, is not
// changed: git marks it by its colour, whatever its indentation.
import { execFileSync } from 'node:child_process';

const MOVED = ['Moved', 'MovedAlternative', 'MovedDimmed', 'MovedAlternativeDimmed'];
const COLOURS = ['frag=cyan', 'new=green', 'old=red', ...MOVED.flatMap((one) => [`new${one}=blue`, `old${one}=red`])];
const DIFF = ['diff', '-U0', '-M', '--no-ext-diff', '--no-prefix', '--color=always'];
const MOVES = ['--color-moved=blocks', '--color-moved-ws=ignore-all-space'];

/** Line numbers, counted from 1, by file. Throws where `since` names no commit of this clone. */
export function changedLines(since: string, cwd: string): ReadonlyMap<string, ReadonlySet<number>> {
  const colours = COLOURS.flatMap((colour) => ['-c', `color.diff.${colour}`]);
  const diff = execFileSync('git', [...colours, ...DIFF, ...MOVES, since, '--', 'lib', 'bin'], {
    cwd,
    maxBuffer: 2 ** 28,
  });
  return linesOf(diff.toString());
}

/** What a coloured diff without context says. */
export function linesOf(diff: string): ReadonlyMap<string, ReadonlySet<number>> {
  const changed = new Map<string, Set<number>>();
  let lines = new Set<number>();
  let at = 0;
  for (const line of diff.split('\n')) {
    // eslint-disable-next-line no-control-regex -- Escape sequences are what is read here.
    const text = line.replace(/\x1b\[[\d;]*m/g, '');
    const file = /^\+\+\+ (lib\/.*)$/.exec(text)?.[1];
    const hunk = /^@@ -\S+ \+(\d+)(?:,\d+)? @@/.exec(text);
    if (text.startsWith('+++ ')) lines = new Set();
    if (file !== undefined) changed.set(file, lines);
    else if (hunk !== null) at = Number(hunk[1]);
    else if (text.startsWith('+') && !text.startsWith('+++ ')) {
      if (line.startsWith('\x1b[32m')) lines.add(at);
      at += 1;
    }
  }
  for (const [path, some] of changed) if (some.size === 0) changed.delete(path);
  return changed;
}
