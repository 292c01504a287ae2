// What a scan says that it looked at: target, include and exclude. They must be the whole truth, because a later
// comparison calls a finding fixed only where they say that its place was looked at. Where the choice cannot be said in
// patterns (several paths and --include at once, or a configuration that cannot be read), the files are listed.
import { join } from 'node:path';
import type { FoundFile, Start } from './file-search.ts';
import { literalGlob, normalGlob } from '../document/file-pattern.ts';
import type { LintEngine } from './lint-engine.ts';
import { sortedUnique } from '../document/report-path.ts';
import type { Scan } from '../document/report-schema.ts';

export interface ScopeRequest {
  readonly root: string;
  readonly starts: readonly Start[];
  readonly files: readonly FoundFile[];
  readonly include: readonly string[];
  readonly exclude: readonly string[];
  readonly extensions: readonly string[];
  readonly engine: LintEngine;
}

/** The scope members of `scan`. */
export type ScanScope = Pick<Scan, 'target' | 'include' | 'exclude'>;

/** Target and patterns, sorted; the same for any order of the arguments. */
export async function scanScope(request: ScopeRequest): Promise<ScanScope> {
  const { root, starts, files, engine } = request;
  const probes = files.length > 0 ? files.map(({ absolute }) => absolute) : [join(root, 'x.js')];
  const choice = await engine.fileChoice(probes);
  const exclude = sortedUnique([...request.exclude.map(normalGlob), ...(choice?.exclude ?? [])]);
  const listed = () => sortedUnique(files.map(({ path }) => literalGlob(path)));
  const asked = request.include.map(normalGlob);
  const [only] = starts;
  if (starts.length === 1 && only !== undefined && only.kind !== 'glob') {
    const target = { kind: only.kind === 'file' ? ('file' as const) : ('project' as const), path: only.path };
    if (target.kind === 'file') return { target, include: sortedUnique(asked), exclude };
    const byEnding = request.extensions.map((extension) => `**/*.${extension}`);
    if (asked.length > 0) return { target, include: byEnding.length > 0 ? listed() : sortedUnique(asked), exclude };
    if (choice === undefined) return { target, include: listed(), exclude };
    return { target, include: sortedUnique(byEnding.length > 0 ? byEnding : choice.include), exclude };
  }
  const target = { kind: 'project' as const, path: '.' };
  if (asked.length > 0 || request.extensions.length > 0 || choice === undefined) return { target, include: listed(), exclude };
  return { target, include: sortedUnique(starts.map(startPattern)), exclude };
}

function startPattern(start: Start): string {
  if (start.kind === 'glob') return start.pattern;
  if (start.kind === 'file') return literalGlob(start.path);
  return start.path === '.' ? '**' : `${literalGlob(start.path)}/**`;
}
