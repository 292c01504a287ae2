// Finds the files of a scan. The walk does not follow symbolic links, but a link on the command line is followed.
// Each file is scanned once. Unreadable files and folders are reported. The walk skips node_modules, .git and folders
// that the outer configuration ignores, unless the command line names them.
import type { Dirent } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import { isAbsolute, join, relative, resolve, sep } from 'node:path';
import { errnoOf, throwIfInterrupted, usageFailure } from '../document/failure.ts';
import { isGlob, literalGlob, matchesAny, matchesGlob, normalGlob } from '../document/file-pattern.ts';
import { byCodeUnits, isUnder, pathFault, pathPrefix, sortedUnique } from '../document/report-path.ts';
import type { Scan } from '../document/report-schema.ts';
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

/** A file, or a folder or pattern to search. A folder among the files of a scan cannot be read. */
export interface Entry {
  readonly kind: 'file' | 'folder' | 'glob';
  /** Relative to the root, which is '.'; or a pattern. */
  readonly path: string;
  readonly absolute: string;
  readonly fault?: string | undefined;
}

/** With its path in the report, or the reason why a report cannot have that path. */
export type FoundFile = Entry & { readonly reportPath: string; readonly pathFault: string | undefined };

interface SearchRequest extends AnalysisOptions {
  /** Tells whether the outer configuration ignores a folder that has its own. */
  readonly isLeftOut: (absolute: string) => Promise<boolean>;
}

const NEVER_ENTERED: ReadonlySet<string> = new Set(['node_modules', '.git']);

export async function searchFiles(request: SearchRequest) {
  const { root, paths = [], include = [], exclude = [], extensions = [] } = request;
  const prefix = pathPrefix(request.pathPrefix);
  const starts = await findStarts(request);
  const found = (await findFiles(request, starts)).map((file): FoundFile => {
    const reportPath = prefix.of(file.path);
    return { ...file, reportPath, pathFault: pathFault(reportPath) };
  });
  const onDisk = new Set(found.map(({ reportPath }) => reportPath));
  /** Also returns true for a path that cannot be checked. Returns false for a path outside the prefix. */
  const exists = (reportPath: string) => {
    const path = prefix.strip(reportPath);
    return onDisk.has(reportPath) || (path !== undefined && mayExist(join(root, path)));
  };
  return {
    found,
    exists,
    /** False for a path outside the prefix, which another scan may have. */
    isUnderPrefix: (reportPath: string) => prefix.strip(reportPath) !== undefined,
    /** Returns the path on disk of a missing file that this search would have found. */
    missingFile: (reportPath: string) => {
      const path = prefix.strip(reportPath) ?? '';
      const file: Entry = { kind: 'file', path, absolute: join(root, path) };
      return starts.some((start) => isNamedBy(start, path)) && isWanted(file, request) ? file.absolute : undefined;
    },
    /** False if options limit the search to a part of the root. */
    isWhole: [...paths, ...include, ...exclude, ...extensions].length === 0,
    /** The arguments under which none of these files is. */
    idle: (files: readonly Entry[]) =>
      starts.filter((start) => paths.length > 0 && !files.some(({ path }) => isNamedBy(start, path))),
    /** Lists the scanned files, because patterns cannot express every configuration, and a comparison needs them. */
    scopeOf: (files: readonly FoundFile[]): Pick<Scan, 'target' | 'include' | 'exclude'> => {
      const [only, ...others] = starts;
      const path = prefix.of(only?.path ?? '.');
      const isPlain = others.length === 0 && only?.kind !== 'glob' && pathFault(path) === undefined;
      const included = files.filter((file) => file.pathFault === undefined);
      return {
        target: { kind: isPlain && only?.kind === 'file' ? 'file' : 'project', path: isPlain ? path : prefix.of('.') },
        include: sortedUnique(included.map(({ reportPath }) => literalGlob(reportPath))),
        exclude: sortedUnique(exclude.map((glob) => prefix.ofGlob(normalGlob(glob)))),
      };
    },
  };
}

async function findStarts({ root, cwd = root, paths = [] }: SearchRequest): Promise<Entry[]> {
  if (paths.length === 0) return [{ kind: 'folder', path: '.', absolute: root }];
  const starts = new Map<string, Entry>();
  for (const path of paths) {
    const start = await findStart(root, cwd, path);
    starts.set(`${start.kind === 'glob' ? 'glob ' : ''}${start.path}`, start);
  }
  return [...starts].sort(([one], [other]) => byCodeUnits(one, other)).map(([, start]) => start);
}

async function findStart(root: string, cwd: string, name: string): Promise<Entry> {
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

async function findFiles(request: SearchRequest, starts: readonly Entry[]): Promise<Entry[]> {
  const files = new Map<string, Entry>();
  for (const start of starts) {
    const isNamed = ({ kind, path }: Entry) => kind === 'folder' || isNamedBy(start, path);
    const add = (file: Entry) => {
      if (isNamed(file) && isWanted(file, request)) files.set(file.absolute, file);
    };
    if (start.kind === 'file') add(start);
    else await walk(request, start.absolute, start.kind === 'folder' ? start.path : '.', add);
  }
  return [...files.values()].sort((left, right) => byCodeUnits(left.path, right.path));
}

const isNamedBy = (start: Entry, path: string) =>
  start.kind === 'glob' ? matchesGlob(path, start.path) : isUnder(path, start.path);

function isWanted({ path, kind }: Entry, request: SearchRequest): boolean {
  const { include = [], exclude = [], extensions = [] } = request;
  if (kind === 'folder') return !matchesAny(`${path}/x`, exclude);
  if (matchesAny(path, exclude) || (include.length > 0 && !matchesAny(path, include))) return false;
  return extensions.length === 0 || extensions.some((extension) => path.endsWith(`.${extension}`));
}

async function walk(request: SearchRequest, folder: string, path: string, add: (file: Entry) => void, start = folder) {
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
