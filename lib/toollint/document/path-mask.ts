// Keeps the machine out of a report: its folders would tell who ran the scan, and would make the same code give other
// bytes elsewhere.

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
