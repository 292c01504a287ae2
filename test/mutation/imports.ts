// What a file imports, directly and through others, and how far away each of these is.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Paths from `root`, with the number of imports between `path` and each; types are imported by no running program. */
export function distances(path: string, root: string): ReadonlyMap<string, number> {
  const found = new Map([[path, 0]]);
  for (const [file, distance] of found)
    for (const imported of importsOf(file, root)) if (!found.has(imported)) found.set(imported, distance + 1);
  return found;
}

/**
 * Of statements, of `import(…)` and of a worker's `new URL(…)`: each text that names a file which is there. A worker's
 * may end as its own file does, in TypeScript here and in JavaScript in a package.
 */
function importsOf(path: string, root: string): readonly string[] {
  const text = readFileSync(join(root, path), 'utf8')
    .replace(/^import type [^;]*;/gms, '')
    .replace(/`([^`$\n]+)\$\{extname\(import\.meta\.filename\)\}`/g, "'$1.ts'");
  return [...text.matchAll(/'(\.{1,2}\/[^'\n]+\.ts)'/g)]
    .map(([, name = '']) => join(dirname(path), name))
    .filter((name) => existsSync(join(root, name)));
}
