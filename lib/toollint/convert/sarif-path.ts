// Resolves the locations of a SARIF run (section 3.4.4) to paths of a report. A log often comes from another machine,
// so a base folder that does not exist here stands for the root.
import { isAbsolute, relative, resolve, sep } from 'node:path';
import { pathFault } from '../document/report-path.ts';
import { mayExist } from '../document/source-file.ts';
import type { SarifObject } from './sarif-reader.ts';

/** A path as the linter wrote it. */
export interface ForeignPath {
  /** With its base: relative, absolute or a URL. */
  readonly whole: string;
  /** Without its absolute base; `undefined` if it has none. */
  readonly bare: string | undefined;
}

const isAbsoluteUri = (uri: string) => /^(?:[A-Za-z][A-Za-z0-9+.-]*:|[/\\])/u.test(uri);

/** Returns a function that reads a location, which may also be the index of an artifact. */
export function pathsIn(run: SarifObject): (location: SarifObject | undefined) => ForeignPath | undefined {
  const bases = run.object('originalUriBaseIds');
  const artifacts = run.objects('artifacts');
  const baseOf = (id: string | undefined, seen: readonly string[] = []): { folder: string; inner: string } => {
    const base = id === undefined || seen.includes(id) ? undefined : bases?.object(id);
    if (id === undefined || base === undefined) return { folder: '', inner: '' };
    const uri = base.text('uri') ?? '';
    const whole = uri === '' || uri.endsWith('/') ? uri : `${uri}/`;
    if (isAbsoluteUri(whole)) return { folder: whole, inner: '' };
    const { folder, inner } = baseOf(base.text('uriBaseId'), [...seen, id]);
    return { folder, inner: inner + whole };
  };
  const folders = new Set((bases?.names() ?? []).map((id) => baseOf(id).folder));
  for (const invocation of run.objects('invocations')) {
    const folder = invocation.object('workingDirectory')?.text('uri') ?? '';
    folders.add(folder.endsWith('/') ? folder : `${folder}/`);
  }
  const known = [...folders].filter((folder) => /[^/:]/u.test(folder.replace(/^file:/iu, '')));
  return (location) => {
    const uri = location?.text('uri');
    const given = uri === undefined ? artifacts[location?.number('index') ?? -1]?.object('location') : location;
    const text = uri ?? given?.text('uri');
    if (text === undefined) return undefined;
    if (isAbsoluteUri(text)) {
      const folder = known.find((one) => text.startsWith(one));
      return { whole: text, bare: folder === undefined ? undefined : text.slice(folder.length) };
    }
    const { folder, inner } = baseOf(given?.text('uriBaseId'));
    return { whole: folder + inner + text, bare: inner + text };
  };
}

/** Gives the paths of a log their place below the root. */
export class PathPlacer {
  readonly #roots: readonly string[];
  /** A folder of the machine that the linter ran on, which had the same files as the root; it ends with a slash. */
  #elsewhere: string | undefined;

  /** The roots are names of one folder. */
  constructor(roots: readonly string[], paths: Iterable<ForeignPath>) {
    this.#roots = roots;
    this.#elsewhere = this.#findElsewhere(paths);
  }

  /** Returns '.' for the root, or `undefined` for a path that is not below the root. */
  place({ whole, bare }: ForeignPath): string | undefined {
    const text = withoutFileScheme(whole);
    if (!isAbsoluteUri(text)) return inside(text);
    if (!isAbsolute(text)) return bare === undefined ? undefined : inside(decoded(bare));
    const absolute = resolve(text);
    for (const root of this.#roots) {
      const path = relative(root, absolute);
      if (path !== '..' && !path.startsWith(`..${sep}`)) return inside(path);
    }
    if (mayExist(absolute)) return undefined;
    if (bare !== undefined) return inside(decoded(bare));
    const folder = this.#elsewhere;
    return folder !== undefined && absolute.startsWith(folder) ? inside(absolute.slice(folder.length)) : undefined;
  }

  /** Returns the shortest folder such that most of the unknown absolute paths under it exist below the root. */
  #findElsewhere(paths: Iterable<ForeignPath>): string | undefined {
    const unknown = [...new Set([...paths].map(({ whole }) => withoutFileScheme(whole)))]
      .filter((path) => isAbsolute(path))
      .map((path) => resolve(path))
      .filter((path) => !mayExist(path));
    const counts = new Map<string, number>();
    for (const path of unknown.slice(0, 1000))
      for (let at = path.indexOf('/'); at >= 0; at = path.indexOf('/', at + 1)) {
        const folder = path.slice(0, at + 1);
        if (mayExist(resolve(this.#roots[0] ?? '/', path.slice(at + 1))))
          counts.set(folder, (counts.get(folder) ?? 0) + 1);
      }
    const most = Math.max(0, ...counts.values());
    const best = [...counts.keys()].filter((folder) => counts.get(folder) === most);
    return best.sort((one, other) => one.length - other.length)[0];
  }
}

/** Returns the decoded path of a file URL or of a relative reference, and any other URL as it is. */
function withoutFileScheme(uri: string): string {
  const path = uri.replace(/^file:(?:\/\/(?:localhost(?=\/))?)?/iu, '');
  return path === uri && /^[A-Za-z][A-Za-z0-9+.-]*:/u.test(uri) ? uri : decoded(path);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function inside(text: string): string | undefined {
  const parts: string[] = [];
  for (const part of text.replaceAll('\\', '/').split('/')) {
    if (part === '..' && parts.pop() === undefined) return undefined;
    if (part !== '' && part !== '.' && part !== '..') parts.push(part);
  }
  const path = parts.join('/').normalize('NFC');
  return path === '' ? '.' : pathFault(path) === undefined ? path : undefined;
}
