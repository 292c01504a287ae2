// Finds the files of a scan. The walk does not follow symbolic links, but a link on the command line is followed.
// Each file is scanned once. Unreadable files and folders are reported. The walk skips node_modules, .git and folders
// that the outer configuration ignores, unless the command line names them.
import type { Dirent } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import { isAbsolute, join, relative, resolve, sep } from 'node:path';
import { errnoOf, throwIfInterrupted, usageFailure } from '../document/failure.ts';
import { isGlob, matchesAny, matchesGlob, normalGlob } from '../document/file-pattern.ts';
import { byCodeUnits, isUnder } from '../document/report-path.ts';
import { mayExist } from '../document/source-file.ts';

export interface AnalysisOptions {
  readonly root: string;
  /** The folder that `paths` are relative to. Default: the root. */
  readonly cwd?: string;
  readonly paths?: readonly string[];
  readonly include?: readonly string[];
  readonly exclude?: readonly string[];
  readonly extensions?: readonly string[];
  readonly config?: string | undefined;
  readonly pathPrefix?: string;
  readonly timestamp?: string | undefined;
  readonly deterministic?: boolean;
  readonly signal?: AbortSignal | undefined;
  /** Called with the real paths of the files that the scan reads, before it reads them. May throw. */
  readonly checkRead?: (paths: readonly string[]) => void;
  readonly progress?: (done: number, total: number) => void;
}

/** A file, or a folder or pattern to search. A folder that was found cannot be read. */
export interface Place {
  readonly kind: 'file' | 'folder' | 'glob';
  /** Relative to the root, which is '.'; or a pattern. */
  readonly path: string;
  readonly absolute: string;
  readonly fault?: string | undefined;
}

export interface SearchRequest extends AnalysisOptions {
  readonly isLeftOut: (absolute: string) => Promise<boolean>;
}

const NEVER_ENTERED: ReadonlySet<string> = new Set(['node_modules', '.git']);

export async function findStarts({ root, cwd = root, paths = [] }: SearchRequest): Promise<Place[]> {
  if (paths.length === 0) return [{ kind: 'folder', path: '.', absolute: root }];
  const starts = new Map<string, Place>();
  for (const path of paths) {
    const start = await findStart(root, cwd, path);
    starts.set(`${start.kind === 'glob' ? 'glob ' : ''}${start.path}`, start);
  }
  return [...starts].sort(([one], [other]) => byCodeUnits(one, other)).map(([, start]) => start);
}

async function findStart(root: string, cwd: string, name: string): Promise<Place> {
  // An unset shell variable would otherwise scan the whole folder.
  if (name === '') throw usageFailure('a path is empty');
  const absolute = resolve(cwd, name);
  const named = relativeTo(root, absolute);
  if (named !== undefined && !mayExist(absolute)) {
    if (isGlob(name) && !isAbsolute(name)) return { kind: 'glob', path: named, absolute: root };
    throw usageFailure(`${name}: no such file or folder`);
  }
  try {
    const real = await realpath(absolute);
    const status = await stat(real);
    const path = relativeTo(root, real);
    const kind = status.isDirectory() ? 'folder' : 'file';
    const fault = kind === 'folder' || status.isFile() ? undefined : 'not a regular file';
    if (path !== undefined) return { kind, path, absolute: real, fault };
  } catch (cause) {
    if (named !== undefined) return { kind: 'file', path: named, absolute, fault: errnoOf(cause) ?? 'unreadable' };
  }
  throw usageFailure(`${name} is outside the root; choose the root with --root`);
}

function relativeTo(root: string, absolute: string): string | undefined {
  const path = relative(root, absolute);
  if (path === '..' || path.startsWith(`..${sep}`) || isAbsolute(path)) return undefined;
  return path === '' ? '.' : path.split(sep).join('/').normalize('NFC');
}

export async function findFiles(request: SearchRequest, starts: readonly Place[]): Promise<Place[]> {
  const found = new Map<string, Place>();
  for (const start of starts) {
    const isNamed = ({ kind, path }: Place) => kind === 'folder' || isNamedBy(start, path);
    const add = (file: Place) => {
      if (isNamed(file) && isWanted(file, request)) found.set(file.absolute, file);
    };
    if (start.kind === 'file') add(start);
    else await walk(request, start.absolute, start.kind === 'folder' ? start.path : '.', add);
  }
  return [...found.values()].sort((left, right) => byCodeUnits(left.path, right.path));
}

export function isNamedBy(start: Place, path: string): boolean {
  return start.kind === 'glob' ? matchesGlob(path, start.path) : isUnder(path, start.path);
}

export function isWanted({ path, kind }: Place, request: SearchRequest): boolean {
  const { include = [], exclude = [], extensions = [] } = request;
  if (kind === 'folder') return !matchesAny(`${path}/x`, exclude);
  if (matchesAny(path, exclude) || (include.length > 0 && !matchesAny(path, include))) return false;
  return extensions.length === 0 || extensions.some((extension) => path.endsWith(`.${extension}`));
}

async function walk(
  request: SearchRequest,
  folder: string,
  path: string,
  add: (file: Place) => void,
  start = folder,
): Promise<void> {
  throwIfInterrupted(request.signal);
  let entries: Dirent[];
  try {
    entries = await readdir(folder, { withFileTypes: true });
  } catch (cause) {
    add({ kind: 'folder', path, absolute: folder, fault: errnoOf(cause) ?? 'unreadable' });
    return;
  }
  const isConfigured = entries.some(({ name }) => /^eslint\.config\.[cm]?[jt]s$/u.test(name));
  if (folder !== start && isConfigured && (await request.isLeftOut(folder))) return;
  const excluded = (request.exclude ?? []).filter((pattern) => normalGlob(pattern).endsWith('/**'));
  for (const entry of entries) {
    const absolute = join(folder, entry.name);
    const name = entry.name.normalize('NFC');
    const inner = path === '.' ? name : `${path}/${name}`;
    if (entry.isFile()) add({ kind: 'file', path: inner, absolute });
    else if (entry.isDirectory() && !NEVER_ENTERED.has(entry.name) && !matchesAny(`${inner}/x`, excluded))
      await walk(request, absolute, inner, add, start);
  }
}
