// Resolves the locations of a SARIF run (section 3.4.4) to paths of a report. A log often comes from another machine,
// so a base folder that does not exist here stands for the root.
import { isAbsolute, posix, relative, resolve, sep } from 'node:path';
import { pathFault } from '../document/report-path.ts';
import { mayExist } from '../document/source-file.ts';
import type { ArtifactLocation, Run } from './sarif-log.ts';

/** A path as the linter wrote it. */
export interface SarifPath {
  /** With its base: relative, absolute or a URL. */
  readonly whole: string;
  /** Without its absolute base; `undefined` if it has none. */
  readonly bare: string | undefined;
}

type Decode = (text: string) => string;

const isAbsoluteUri = (uri: string) => /^(?:[A-Za-z][A-Za-z0-9+.-]*:|[/\\])/u.test(uri);
const asFolder = (uri: string) => (uri === '' || uri.endsWith('/') ? uri : `${uri}/`);

/** Returns a function that reads a location, which may also be the index of an artifact. */
export function pathsIn({ originalUriBaseIds = {}, artifacts, invocations = [] }: Run) {
  const bases = new Map(Object.entries(originalUriBaseIds));
  const baseOf = (id = '', seen: readonly string[] = []): { folder: string; inner: string } => {
    const base = seen.includes(id) ? undefined : bases.get(id);
    if (base === undefined) return { folder: '', inner: '' };
    const whole = asFolder(base.uri ?? '');
    if (isAbsoluteUri(whole)) return { folder: whole, inner: '' };
    const { folder, inner } = baseOf(base.uriBaseId, [...seen, id]);
    return { folder, inner: inner + whole };
  };
  const folders = [
    ...[...bases.keys()].map((id) => baseOf(id).folder),
    ...invocations.map(({ workingDirectory }) => asFolder(workingDirectory?.uri ?? '')),
  ].filter((folder) => /[^/:]/u.test(folder.replace(/^file:/iu, '')));
  return (location: ArtifactLocation | undefined): SarifPath | undefined => {
    const target = location?.uri === undefined ? artifacts?.[location?.index ?? -1]?.location : location;
    if (target?.uri === undefined) return undefined;
    const { uri } = target;
    if (isAbsoluteUri(uri)) {
      const folder = folders.find((one) => uri.startsWith(one));
      return { whole: uri, bare: folder === undefined ? undefined : uri.slice(folder.length) };
    }
    const { folder, inner } = baseOf(target.uriBaseId);
    return { whole: folder + inner + uri, bare: inner + uri };
  };
}

/**
 * Returns a function that finds the place of a path below the root, which is '.' for the root itself. The roots are
 * names of one folder.
 */
export function placerFor(roots: readonly string[], paths: Iterable<SarifPath>) {
  const elsewhere = folderElsewhere(roots[0] ?? '/', paths);
  const placeOf = ({ whole, bare }: SarifPath, decode: Decode): string | undefined => {
    const text = withoutFileScheme(whole, decode);
    if (!isAbsoluteUri(text)) return inside(text);
    const own = bare === undefined ? undefined : inside(decode(bare));
    if (!isAbsolute(text)) return own;
    const absolute = resolve(text);
    for (const root of roots) {
      const path = relative(root, absolute);
      if (path !== '..' && !path.startsWith(`..${sep}`)) return inside(path);
    }
    if (mayExist(absolute)) return undefined;
    if (bare !== undefined) return own;
    const isThere = elsewhere !== undefined && absolute.startsWith(elsewhere);
    return isThere ? inside(absolute.slice(elsewhere.length)) : undefined;
  };
  const exists = (place: string | undefined) => place !== undefined && mayExist(resolve(roots[0] ?? '/', place));
  const cache = new Map<string, string | undefined>();
  return (path: SarifPath) => {
    const key = `${path.whole}\0${path.bare}`;
    if (cache.has(key)) return cache.get(key);
    const place = placeOf(path, decoded);
    // Many linters write a path without encoding it, and the name of a file may contain '%41'.
    const literal = !path.whole.includes('%') || exists(place) ? undefined : placeOf(path, (text) => text);
    cache.set(key, exists(literal) ? literal : place);
    return cache.get(key);
  };
}

/** Returns the shortest folder, with a slash, such that most unknown absolute paths under it exist below the root. */
function folderElsewhere(root: string, paths: Iterable<SarifPath>): string | undefined {
  const absolute = new Set([...paths].map(({ whole }) => withoutFileScheme(whole)).filter((path) => isAbsolute(path)));
  const unknown = [...absolute].map((path) => resolve(path)).filter((path) => !mayExist(path));
  const counts = new Map<string, number>();
  for (const path of unknown.slice(0, 1000))
    for (let at = path.indexOf('/'); at >= 0; at = path.indexOf('/', at + 1)) {
      const folder = path.slice(0, at + 1);
      if (mayExist(resolve(root, path.slice(at + 1)))) counts.set(folder, (counts.get(folder) ?? 0) + 1);
    }
  const [best] = [...counts].sort(([one, many], [other, more]) => more - many || one.length - other.length);
  return best?.[0];
}

/** Returns the decoded path of a file URL or of a relative reference, `/C:/x` for `C:\x`, and another URL as it is. */
function withoutFileScheme(uri: string, decode: Decode = decoded): string {
  if (/^[A-Za-z]:[\\/]/u.test(uri)) return `/${uri.replaceAll('\\', '/')}`;
  const path = uri.replace(/^file:(?:\/\/(?:localhost(?=\/))?)?/iu, '');
  return path === uri && /^[A-Za-z][A-Za-z0-9+.-]*:/u.test(uri) ? uri : decode(path);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function inside(text: string): string | undefined {
  const relative = text.replaceAll('\\', '/').replace(/^\/+/u, '');
  const path = posix.normalize(relative).replace(/\/$/u, '').normalize('NFC');
  return path === '.' || pathFault(path) === undefined ? path : undefined;
}
