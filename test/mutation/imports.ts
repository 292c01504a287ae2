import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Returns the number of imports between `path` and each file that it reaches, ignoring type-only imports. */
export function distances(path: string, root: string): ReadonlyMap<string, number> {
  const found = new Map([[path, 0]]);
  for (const [file, distance] of found)
    for (const imported of importsOf(file, root)) if (!found.has(imported)) found.set(imported, distance + 1);
  return found;
}

/**
 * Returns the files that a module imports, statically or with `import()`, or starts as workers with `new URL()`. A
 * worker's extension is computed, because it is `.js` in a package and `.ts` in this repository.
 */
function importsOf(path: string, root: string): readonly string[] {
  const text = readFileSync(join(root, path), 'utf8')
    .replace(/^import type [^;]*;/gms, '')
    .replace(/`([^`$\n]+)\$\{extname\(import\.meta\.filename\)\}`/g, "'$1.ts'");
  return [...text.matchAll(/'(\.{1,2}\/[^'\n]+\.ts)'/g)]
    .map(([, name = '']) => join(dirname(path), name))
    .filter((name) => existsSync(join(root, name)));
}
