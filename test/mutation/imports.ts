import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The number of imports between `path` and each file that it reaches. Type imports do not count. */
export function distances(path: string, root: string): ReadonlyMap<string, number> {
  const found = new Map([[path, 0]]);
  for (const [file, distance] of found)
    for (const imported of importsOf(file, root)) if (!found.has(imported)) found.set(imported, distance + 1);
  return found;
}

/**
 * Files named by import statements, `import(…)` and the `new URL(…)` of workers. A worker may have the extension .js in
 * a package and .ts here.
 */
function importsOf(path: string, root: string): readonly string[] {
  const text = readFileSync(join(root, path), 'utf8')
    .replace(/^import type [^;]*;/gms, '')
    .replace(/`([^`$\n]+)\$\{extname\(import\.meta\.filename\)\}`/g, "'$1.ts'");
  return [...text.matchAll(/'(\.{1,2}\/[^'\n]+\.ts)'/g)]
    .map(([, name = '']) => join(dirname(path), name))
    .filter((name) => existsSync(join(root, name)));
}
