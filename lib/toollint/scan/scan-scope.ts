// What a scan says that it looked at: target, include and exclude. They must be the whole truth, because a later
// comparison calls a finding fixed only where they say that its place was looked at. Where the choice cannot be said in
// patterns (several paths and --include at once, or a configuration that takes back or cannot be read), and where the
// patterns would choose a file that was passed over, the files are listed.
import { join } from 'node:path';
import type { FoundFile, Start } from './file-search.ts';
import { literalGlob, matchesAny, normalGlob } from '../document/file-pattern.ts';
import type { LintEngine } from './lint-engine.ts';
import { isUnder, pathFault, sortedUnique } from '../document/report-path.ts';
import type { PathPrefix } from './path-prefix.ts';
import type { Scan } from '../document/report-schema.ts';

interface ScopeRequest {
  readonly root: string;
  readonly starts: readonly Start[];
  /** What the command line lets in. */
  readonly found: readonly FoundFile[];
  /** Those of them that the configuration is for. */
  readonly files: readonly FoundFile[];
  readonly include: readonly string[];
  readonly exclude: readonly string[];
  readonly extensions: readonly string[];
  readonly engine: LintEngine;
  readonly prefix: PathPrefix;
}

/** The scope members of `scan`. */
type ScanScope = Pick<Scan, 'target' | 'include' | 'exclude'>;

/** Target and patterns, sorted; the same for any order of the arguments. */
export async function scanScope(request: ScopeRequest): Promise<ScanScope> {
  const { prefix } = request;
  const said = await saidInPatterns(request);
  const scope = isTrue(said, request) ? said : { ...said, include: request.files.map(({ path }) => literalGlob(path)) };
  return {
    target: scope.target === null ? null : { ...scope.target, path: prefix.of(scope.target.path) },
    include: sortedUnique(scope.include.map((glob) => prefix.ofGlob(glob))),
    exclude: sortedUnique(scope.exclude.map((glob) => prefix.ofGlob(glob))),
  };
}

/** Whether the patterns choose, of the files that are there, exactly those that were scanned. */
function isTrue({ target, include, exclude }: ScanScope, { found, files }: ScopeRequest): boolean {
  if (target === null || target.kind === 'file') return true;
  const scanned = new Set(files.map(({ path }) => path));
  return found.every(({ path, isFolder }) => {
    if (isFolder === true) return true;
    const said =
      isUnder(path, target.path) && (include.length === 0 || matchesAny(path, include)) && !matchesAny(path, exclude);
    return said === scanned.has(path);
  });
}

async function saidInPatterns(request: ScopeRequest): Promise<ScanScope> {
  const { root, starts, files, engine } = request;
  const probes = files.length > 0 ? files.map(({ absolute }) => absolute) : [join(root, 'x.js')];
  const choice = await engine.fileChoice(probes);
  const exclude = [...request.exclude.map(normalGlob), ...(choice?.exclude ?? [])];
  const listed = () => files.map(({ path }) => literalGlob(path));
  const asked = request.include.map(normalGlob);
  const byEnding = request.extensions.map((extension) => `**/*.${extension}`);
  const [only] = starts;
  if (starts.length === 1 && only !== undefined && only.kind !== 'glob' && isReportPath(only.path)) {
    const target = { kind: only.kind === 'file' ? ('file' as const) : ('project' as const), path: only.path };
    if (target.kind === 'file') return { target, include: asked, exclude };
    if (asked.length > 0) return { target, include: byEnding.length > 0 ? listed() : asked, exclude };
    if (choice === undefined) return { target, include: listed(), exclude };
    return { target, include: byEnding.length > 0 ? byEnding : [...choice.include], exclude };
  }
  const target = { kind: 'project' as const, path: '.' };
  if (asked.length > 0 || byEnding.length > 0 || choice === undefined) return { target, include: listed(), exclude };
  return { target, include: starts.map(startPattern), exclude };
}

/** A name that cannot stand in a report is no target either. */
function isReportPath(path: string): boolean {
  return path === '.' || pathFault(path) === undefined;
}

function startPattern(start: Start): string {
  if (start.kind === 'glob') return start.pattern;
  if (start.kind === 'file') return literalGlob(start.path);
  return start.path === '.' ? '**' : `${literalGlob(start.path)}/**`;
}
