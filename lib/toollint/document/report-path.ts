// Paths as a report writes them: relative to the root of the scan, '/' between the segments, in Unicode's NFC. A report
// names no folder of the machine: the same code gives the same bytes everywhere.

/** Why a text is not a path of a report; undefined if it is one. */
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

/** Whether `path` is `folder` or lies under it; '.' is the root. */
export function isUnder(path: string, folder: string): boolean {
  return folder === '.' || path === folder || path.startsWith(`${folder}/`);
}

/** Code-unit order, the same on every machine (localeCompare is not). */
export function byCodeUnits(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}

export function sortedUnique(values: Iterable<string>): string[] {
  return [...new Set(values)].sort(byCodeUnits);
}

// What looks like an absolute path, on POSIX or Windows; its last name is caught. Not for a rule's message: that may
// quote a regular expression, which looks the same.
const ABSOLUTE_PATH = /(?<![\w./~-])(?:[A-Za-z]:)?[/\\](?:[^\s'"`:,;()<>/\\]+[/\\])+([^\s'"`:,;()<>/\\]*)/gu;

/** The text without the absolute names of the given folders. */
export function withoutRoots(text: string, roots: readonly string[]): string {
  let result = text;
  for (const root of roots) if (root.length > 1) result = result.replaceAll(`${root}/`, '').replaceAll(root, '.');
  return result;
}

/** The text of an Error, which may name any folder of the machine: of each absolute path only the last name stays. */
export function withoutAbsolutePaths(text: string, roots: readonly string[]): string {
  return withoutRoots(text, roots).replaceAll('file://', '').replace(ABSOLUTE_PATH, '$1');
}
