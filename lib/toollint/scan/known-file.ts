// One file through the linter, or from the cache where nothing that its messages depend on has changed.
import type { FoundFile } from './file-search.ts';
import type { LintedFile, LintEngine } from './lint-engine.ts';
import type { ResultCache } from './result-cache.ts';

/** Lints a file, or remembers what was said of it. */
export async function lintedFile(
  { path, absolute }: FoundFile,
  text: string,
  engine: LintEngine,
  cache: ResultCache | undefined,
): Promise<LintedFile> {
  const settings = cache === undefined ? undefined : await engine.settingsOf(absolute);
  if (cache === undefined || settings === undefined) return engine.lint(absolute, text);
  const known = cache.get(path, text, settings);
  if (known !== undefined) {
    engine.remember(known.ran);
    return { ...known, crashes: [] };
  }
  const linted = await engine.lint(absolute, text);
  const rules = (await engine.rulesFor(absolute)) ?? [];
  const isWhole =
    linted.failure === undefined && linted.crashes.length === 0 && !rules.some((id) => engine.givenUp.has(id));
  if (isWhole) cache.put(path, text, settings, linted);
  return linted;
}
