// Finds the files of a scan. The walk does not follow symbolic links, but a link on the command line is followed.
// Each file is scanned once. Unreadable files and folders are reported. The walk skips node_modules, .git and folders
// that the outer configuration ignores, unless the command line names them.
import type { Dirent } from 'node:fs';
import { lstat, readdir, realpath, stat } from 'node:fs/promises';
import { isAbsolute, join, relative, resolve, sep } from 'node:path';
import { errnoOf, throwIfInterrupted, usageFailure } from '../document/failure.ts';
import { isGlob, matchesAny, matchesGlob, normalGlob } from '../document/file-pattern.ts';
import { byCodeUnits, isUnder } from '../document/report-path.ts';

export interface AnalysisOptions {
  readonly root: string;
  /** The folder that `paths` are relative to. Default: the root. */
  readonly cwd?: string;
  /** Files, folders and patterns. Default: the root. */
  readonly paths?: readonly string[];
  readonly include?: readonly string[];
  readonly exclude?: readonly string[];
  /** Extensions without the dot. Default: those of the configuration. */
  readonly extensions?: readonly string[];
  /** An absolute path. This file replaces the target's own configuration. */
  readonly config?: string | undefined;
  readonly pathPrefix?: string;
  readonly timestamp?: string | undefined;
  /** Writes 0 as the duration and, without a timestamp, 1970 as the time. */
  readonly deterministic?: boolean;
  readonly signal?: AbortSignal | undefined;
}

export interface FoundFile {
  readonly path: string;
  readonly absolute: string;
  readonly fault?: string | undefined;
  readonly isFolder?: boolean;
}

export interface SearchRequest extends AnalysisOptions {
  /** Called for each folder that contains its own ESLint configuration. */
  readonly isLeftOut: (absolute: string) => Promise<boolean>;
}

export interface Start {
  readonly kind: 'file' | 'folder' | 'glob';
  /** Relative to the root, which is '.'; or a pattern. */
  readonly path: string;
  readonly absolute: string;
  readonly fault?: string | undefined;
}

const NEVER_ENTERED: ReadonlySet<string> = new Set(['node_modules', '.git']);

/**
 * Returns the starts sorted and without duplicates. Throws ReportFailure for a path that does not exist or is outside
 * the root.
 */
export async function findStarts({ root, cwd = root, paths = [] }: SearchRequest): Promise<Start[]> {
  if (paths.length === 0) return [{ kind: 'folder', path: '.', absolute: root }];
  const starts = new Map<string, Start>();
  for (const path of paths) {
    const start = await findStart(root, cwd, path);
    starts.set(`${start.kind === 'glob' ? 'glob ' : ''}${start.path}`, start);
  }
  return [...starts].sort(([one], [other]) => byCodeUnits(one, other)).map(([, start]) => start);
}

async function findStart(root: string, cwd: string, name: string): Promise<Start> {
  // An unset shell variable would otherwise scan the whole folder.
  if (name === '') throw usageFailure('a path is empty');
  const absolute = resolve(cwd, name);
  const named = relativeTo(root, absolute);
  const outside = usageFailure(`${name} is outside the root; choose the root with --root`);
  if ((await lstat(absolute).catch(() => undefined)) === undefined) {
    if (named === undefined) throw outside;
    if (isGlob(name) && !isAbsolute(name)) return { kind: 'glob', path: named, absolute: root };
    throw usageFailure(`${name}: no such file or folder`);
  }
  try {
    const real = await realpath(absolute);
    const status = await stat(real);
    const path = relativeTo(root, real);
    if (path === undefined) throw outside;
    if (status.isDirectory()) return { kind: 'folder', path, absolute: real };
    return { kind: 'file', path, absolute: real, fault: status.isFile() ? undefined : 'not a regular file' };
  } catch (cause) {
    if (cause === outside || named === undefined) throw outside;
    return { kind: 'file', path: named, absolute, fault: errnoOf(cause) ?? 'unreadable' };
  }
}

function relativeTo(root: string, absolute: string): string | undefined {
  const path = relative(root, absolute);
  if (path === '..' || path.startsWith(`..${sep}`) || isAbsolute(path)) return undefined;
  return path === '' ? '.' : path.split(sep).join('/').normalize('NFC');
}

export async function findFiles(request: SearchRequest, starts: readonly Start[]): Promise<FoundFile[]> {
  const found = new Map<string, FoundFile>();
  const add = (file: FoundFile) => {
    if (isWanted(file, request)) found.set(file.absolute, file);
  };
  for (const start of starts) {
    const { kind, path, absolute } = start;
    if (kind === 'file') add(start);
    else if (kind === 'folder') await walk(request, absolute, path, add);
    else await walk(request, absolute, '.', (file) => (file.isFolder || matchesGlob(file.path, path)) && add(file));
  }
  return [...found.values()].sort((left, right) => byCodeUnits(left.path, right.path));
}

export function isNamedBy(start: Start, path: string): boolean {
  return start.kind === 'glob' ? matchesGlob(path, start.path) : isUnder(path, start.path);
}

export function isWanted({ path, isFolder }: FoundFile, request: SearchRequest): boolean {
  const { include = [], exclude = [], extensions = [] } = request;
  if (isFolder === true) return !matchesAny(`${path}/x`, exclude);
  if (include.length > 0 && !matchesAny(path, include)) return false;
  if (matchesAny(path, exclude)) return false;
  return extensions.length === 0 || extensions.some((extension) => path.endsWith(`.${extension}`));
}

async function walk(
  request: SearchRequest,
  folder: string,
  path: string,
  add: (file: FoundFile) => unknown,
  start = folder,
): Promise<void> {
  throwIfInterrupted(request.signal);
  let entries: Dirent[];
  try {
    entries = await readdir(folder, { withFileTypes: true });
  } catch (cause) {
    add({ path, absolute: folder, fault: errnoOf(cause) ?? 'unreadable', isFolder: true });
    return;
  }
  const isConfigured = entries.some(({ name }) => /^eslint\.config\.[cm]?[jt]s$/u.test(name));
  if (folder !== start && isConfigured && (await request.isLeftOut(folder))) return;
  const excluded = (request.exclude ?? []).filter((pattern) => normalGlob(pattern).endsWith('/**'));
  for (const entry of entries) {
    const absolute = join(folder, entry.name);
    const name = entry.name.normalize('NFC');
    const inner = path === '.' ? name : `${path}/${name}`;
    if (entry.isFile()) add({ path: inner, absolute });
    else if (entry.isDirectory() && !NEVER_ENTERED.has(entry.name) && !matchesAny(`${inner}/x`, excluded))
      await walk(request, absolute, inner, add, start);
  }
}
