// The patterns by which a flat configuration chooses files, as one list to match and one to leave out. Not every
// configuration can be said that way: where one cannot, the answer is undefined and the caller lists the files.
import { normalGlob } from '../document/file-pattern.ts';
import type { FileChoice } from './lint-engine.ts';

/** What ESLint lints and leaves out unless told otherwise. */
export const DEFAULT_FILES = ['**/*.js', '**/*.cjs', '**/*.mjs'];
export const DEFAULT_IGNORES = ['**/node_modules/**', '.git/**'];

/** Members that do not make an entry of ignores one for some files only. */
const GLOBAL_MEMBERS: ReadonlySet<string> = new Set(['ignores', 'name', 'basePath']);

/** The choice that an exported configuration makes; `prefix` is its folder below the root, '' for the root. */
export async function choiceOf(exported: unknown, prefix: string): Promise<FileChoice | undefined> {
  const include: string[] = [];
  const exclude: string[] = [];
  // ESLint awaits what a configuration file exports, and nothing inside it.
  for (const entry of [await exported].flat(Infinity)) {
    if (typeof entry !== 'object' || entry === null) return undefined;
    const { files, ignores, basePath } = entry as { files?: unknown; ignores?: unknown; basePath?: unknown };
    const base = typeof basePath === 'string' ? [prefix, basePath].filter(Boolean).join('/') : prefix;
    const placed = (glob: string) => (base === '' ? normalGlob(glob) : `${base}/${normalGlob(glob)}`);
    const wanted = globsOf(files);
    const unwanted = globsOf(ignores);
    if (wanted === undefined || unwanted === undefined) return undefined;
    include.push(...wanted.filter((glob) => !isUniversal(glob)).map(placed));
    if (Object.keys(entry).some((name) => !GLOBAL_MEMBERS.has(name))) continue;
    // ESLint leaves out what lies in a folder that a pattern matches.
    for (const glob of unwanted)
      exclude.push(placed(glob), ...(glob.endsWith('*') ? [] : [placed(`${glob.replace(/\/$/u, '')}/`)]));
  }
  return { include, exclude };
}

/** The patterns of a member; undefined when one of them takes back, asks for two at once, or is no text. */
function globsOf(list: unknown): string[] | undefined {
  if (list === undefined) return [];
  const globs: unknown[] = Array.isArray(list) ? list : [list];
  return globs.every((glob) => typeof glob === 'string' && !glob.startsWith('!')) ? (globs as string[]) : undefined;
}

/** ESLint lints no file because of such a pattern alone. */
function isUniversal(glob: string): boolean {
  return /^(?:\*|\*\*|\*\*\/\*|\*\/\*\*)$/u.test(glob) || glob.endsWith('/*') || glob.endsWith('/**');
}
