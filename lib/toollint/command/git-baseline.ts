// Baselines that git has: the known findings of a commit, and what has changed since.
//
//   git:REF               the commit that REF names, as in git:main
//   git:merge-base(REF)   where the present branch left REF
//
// A commit that holds a baseline file (toollint-baseline.jsonl in the scanned folder) speaks for itself. Any other is
// checked out into a temporary folder, with the installed packages of the working tree, and scanned as a whole with the
// configuration that it has; its report is kept in git's own folder, where a second comparison finds it.
import { hash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { BASELINE_NAME } from '../compare/baseline-file.ts';
import { changesSince, git, type SourceChanges } from '../compare/source-changes.ts';
import { type DocumentSource, fileSource, memorySource, textIn } from '../document/document-source.ts';
import { ReportFailure, usageFailure } from '../document/failure.ts';
import { writeWhole } from '../document/output-file.ts';
import { reportText } from '../document/report-writer.ts';
import { isObject, looseJson } from '../document/strict-json.ts';
import { TOOL_VERSION } from '../document/report-format.ts';
import { PathPrefix } from '../scan/path-prefix.ts';
import { scan, type ScanOptions } from './scan.ts';

/** A baseline, and what git knows of the lines since. */
export interface GitBaseline {
  readonly baseline: DocumentSource;
  readonly changes: SourceChanges;
}

/** The part of a scan that decides what it finds. */
type ScanScope = Pick<ScanOptions, 'root' | 'config' | 'extensions' | 'pathPrefix' | 'signal'>;

/** What the report calls the root. */
const nameOf = ({ pathPrefix = '' }: ScanScope) => new PathPrefix(pathPrefix).of('.');

/** The commit of `git:REF` or `git:merge-base(REF)`. Throws ReportFailure ('usage'). */
async function commitOf(text: string, root: string): Promise<string> {
  const name = text.slice('git:'.length);
  const [, other] = /^merge-base\((.+)\)$/u.exec(name) ?? [];
  if (name === '') throw usageFailure('git: needs a commit, as in git:main');
  const commit = async (ref: string) =>
    (
      await git(root, ['rev-parse', '--verify', '--quiet', '--end-of-options', `${ref}^{commit}`]).catch((cause) => {
        throw new ReportFailure('usage', `${text}: git knows no commit ${ref}`, cause);
      })
    ).trim();
  if (other === undefined) return commit(name);
  const [base = ''] = (await git(root, ['merge-base', 'HEAD', await commit(other)])).split('\n');
  return base;
}

/** What has changed since a baseline file was last committed; undefined where git does not have it. */
export async function changesSinceFile(file: string, scope: ScanScope): Promise<SourceChanges | undefined> {
  try {
    const commit = (await git(dirname(file), ['log', '-1', '--format=%H', '--', file])).trim();
    return commit === '' ? undefined : await changesSince(commit, scope.root, nameOf(scope));
  } catch (cause) {
    if (cause instanceof ReportFailure) return undefined;
    throw cause;
  }
}

/** What `--renames git:REF|FILE` says. Throws ReportFailure. */
export async function changesGiven(
  given: string | undefined,
  cwd: string,
  scope: ScanScope,
): Promise<{ changes?: SourceChanges; renames?: ReadonlyMap<string, string> }> {
  if (given === undefined) return {};
  if (!given.startsWith('git:')) return { renames: await readRenames(given, cwd) };
  const changes = await changesSince(await commitOf(given, scope.root), scope.root, nameOf(scope));
  return { changes, renames: changes.renames };
}

/** A JSON object of old paths and new ones. */
async function readRenames(name: string, cwd: string): Promise<Map<string, string>> {
  const refuse = (): never => {
    throw usageFailure(`${name} needs a JSON object of old paths and new ones`);
  };
  const value = looseJson(textIn(await fileSource(resolve(cwd, name), name)), refuse);
  if (!isObject(value) || Object.values(value).some((to) => typeof to !== 'string')) return refuse();
  return new Map(Object.entries(value) as [string, string][]);
}

/** The known findings of a commit. Throws ReportFailure when git or the scan fails. */
export async function gitBaseline(text: string, options: ScanScope): Promise<GitBaseline> {
  const root = realpathSync(options.root);
  const commit = await commitOf(text, root);
  const changes = await changesSince(commit, root, nameOf(options));
  const top = (await git(root, ['rev-parse', '--show-toplevel'])).trim();
  const folder = relative(top, root).replaceAll('\\', '/');
  const committed = await git(root, ['show', `${commit}:${folder === '' ? '' : `${folder}/`}${BASELINE_NAME}`]).catch(
    () => undefined,
  );
  if (committed !== undefined) return { baseline: memorySource(committed, text), changes };
  const cache = resolve(root, (await git(root, ['rev-parse', '--git-path', 'toollint'])).trim());
  const file = join(cache, `${keyOf(commit, folder, options)}.json`);
  if (!existsSync(file)) {
    const known = await scanOf(commit, { top, folder }, options);
    mkdirSync(cache, { recursive: true });
    await writeWhole(file, file, (sink) => sink(known));
  }
  return { baseline: memorySource(readFileSync(file), text), changes };
}

/** What the findings of a commit depend on, as far as it is not in the commit. */
export function keyOf(commit: string, folder: string, { root, config, extensions, pathPrefix }: ScanScope): string {
  const installed = ['node_modules/.package-lock.json', 'node_modules/.modules.yaml', 'node_modules/.yarn-state.yml'];
  const files = [...installed, ...(config === undefined ? [] : [config])].map((name) => resolve(root, name));
  const times = files.map((name) => statSync(name, { throwIfNoEntry: false })?.mtimeMs ?? 0);
  const parts = [TOOL_VERSION, folder, config, extensions, pathPrefix, times];
  return `${commit}-${hash('sha256', JSON.stringify(parts), 'hex').slice(0, 12)}`;
}

async function scanOf(
  commit: string,
  { top, folder }: { readonly top: string; readonly folder: string },
  options: ScanScope,
): Promise<string> {
  const place = realpathSync(mkdtempSync(join(tmpdir(), 'toollint-')));
  try {
    const tree = join(place, 'tree');
    await git(top, ['clone', '--quiet', '--shared', '--no-checkout', '--', top, tree]);
    await git(tree, ['checkout', '--quiet', '--detach', commit]);
    // Each ends with a NUL, so the last name is empty: it is the top.
    const folders = await git(top, ['ls-tree', '-r', '-d', '-z', '--name-only', commit]);
    for (const one of folders.split('\0')) {
      const modules = join(top, one, 'node_modules');
      if (existsSync(modules) && !existsSync(join(tree, one, 'node_modules')))
        symlinkSync(modules, join(tree, one, 'node_modules'));
    }
    const { config, extensions = [], pathPrefix = '', signal } = options;
    const root = join(tree, folder);
    const { report } = await scan({ root, config, extensions, pathPrefix, signal, snippets: false });
    return [...reportText(report)].join('');
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
}
