// Paths in a report are relative to the root of the scan, use '/' and are in NFC. A report names no folder of the
// machine, so the same code yields the same bytes everywhere.
import { usageFailure } from './failure.ts';
import { literalGlob } from './file-pattern.ts';

export function pathFault(path: string): string | undefined {
  if (path === '') return 'the path is empty';
  if (path.includes('\u0000')) return 'the path contains NUL';
  if (path.includes('\\')) return "the path contains '\\'";
  if (path.startsWith('/')) return 'the path is absolute';
  if (/^[A-Za-z]:/u.test(path)) return 'the path begins with a drive';
  if (/^[A-Za-z][A-Za-z0-9+.-]*:\/\//u.test(path)) return 'the path has a scheme';
  for (const segment of path.split('/')) {
    if (segment === '' || segment === '.' || segment === '..') return `the path has the segment '${segment}'`;
  }
  return undefined;
}

export const isUnder = (path: string, folder: string): boolean =>
  folder === '.' || path === folder || path.startsWith(`${folder}/`);

/** The order of code units is the same on every machine, unlike the order of localeCompare. */
export const byCodeUnits = (left: string, right: string): number => (left < right ? -1 : left > right ? 1 : 0);

export const sortedUnique = (values: Iterable<string>): string[] => [...new Set(values)].sort(byCodeUnits);

// Matches what looks like an absolute path on POSIX or Windows; the group captures the last name in the path.
// Unsuitable for messages of rules, because a quoted regular expression looks the same.
const ABSOLUTE_PATH = /(?<![\w./~-])(?:[A-Za-z]:)?[/\\](?:[^\s'"`:,;()<>/\\]+[/\\])+([^\s'"`:,;()<>/\\]*)/gu;

export function withoutRoots(text: string, roots: readonly string[]): string {
  let result = text;
  for (const root of roots) if (root.length > 1) result = result.replaceAll(`${root}/`, '').replaceAll(root, '.');
  return result;
}

/** Keeps only the last name of each absolute path. For the text of an Error, which may name any folder. */
export function withoutAbsolutePaths(text: string, roots: readonly string[]): string {
  return withoutRoots(text, roots).replaceAll('file://', '').replace(ABSOLUTE_PATH, '$1');
}

export function pathPrefix(text = '') {
  const prefix = text.replace(/^\.\/|\/+$/gu, '').replace(/^\.$/u, '');
  const fault = prefix === '' ? undefined : pathFault(prefix);
  if (fault !== undefined) throw usageFailure(`--path-prefix '${text}': ${fault}`);
  const start = prefix === '' ? '' : `${prefix}/`;
  return {
    of: (path: string) => (path === '.' ? prefix || '.' : start + path),
    ofGlob: (pattern: string) => literalGlob(start) + pattern,
    strip: (path: string) => (path.startsWith(start) ? path.slice(start.length) : undefined),
  };
}
