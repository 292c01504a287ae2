// Paths in a report: relative to the root of the scan, with '/', in NFC. A report names no folder of the machine, so
// the same code gives the same bytes everywhere.

/** The fault of a path; undefined if it may stand in a report. */
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

/** '.' is the root. */
export function isUnder(path: string, folder: string): boolean {
  return folder === '.' || path === folder || path.startsWith(`${folder}/`);
}

/** Code-unit order is the same on every machine; localeCompare is not. */
export function byCodeUnits(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}

export function sortedUnique(values: Iterable<string>): string[] {
  return [...new Set(values)].sort(byCodeUnits);
}

// Looks like an absolute path on POSIX or Windows; the group is its last name. Not for messages of rules: a quoted
// regular expression looks the same.
const ABSOLUTE_PATH = /(?<![\w./~-])(?:[A-Za-z]:)?[/\\](?:[^\s'"`:,;()<>/\\]+[/\\])+([^\s'"`:,;()<>/\\]*)/gu;

export function withoutRoots(text: string, roots: readonly string[]): string {
  let result = text;
  for (const root of roots) if (root.length > 1) result = result.replaceAll(`${root}/`, '').replaceAll(root, '.');
  return result;
}

/** For the text of an Error, which may name any folder: keeps only the last name of each absolute path. */
export function withoutAbsolutePaths(text: string, roots: readonly string[]): string {
  return withoutRoots(text, roots).replaceAll('file://', '').replace(ABSOLUTE_PATH, '$1');
}
