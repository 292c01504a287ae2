// What a scan knows of files that are not on the disk: whether it would have linted them, and by which rules.
import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { errnoOf, ReportFailure } from '../document/failure.ts';
import { matchesGlob } from '../document/file-pattern.ts';
import { isUnder } from '../document/report-path.ts';
import { isWanted, type SearchRequest, type Start } from './file-search.ts';
import type { LintEngine } from './lint-engine.ts';

/** Whether something is there, or whether that cannot be told. */
export function mayExist(absolute: string): boolean {
  try {
    lstatSync(absolute);
    return true;
  } catch (cause) {
    return errnoOf(cause) !== 'ENOENT' && errnoOf(cause) !== 'ENOTDIR';
  }
}

/** The rules that a scan would run on a file of the root that is not there; none when the scan would pass it over. */
export async function rulesIfThere(
  path: string,
  search: SearchRequest,
  starts: readonly Start[],
  engine: LintEngine,
): Promise<readonly string[]> {
  const absolute = join(search.root, path);
  const isNamed = starts.some((start) =>
    start.kind === 'glob' ? matchesGlob(path, start.pattern) : isUnder(path, start.path),
  );
  if (!isNamed || !isWanted({ path, absolute }, search)) return [];
  try {
    return (await engine.rulesFor(absolute)) ?? [];
  } catch (cause) {
    if (cause instanceof ReportFailure) return [];
    throw cause;
  }
}
