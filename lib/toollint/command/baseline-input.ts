// Reads and writes the baseline file of a scan or an import, and asks git for the changes since its commit.
import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { commitsIn, isSameBaseline } from '../compare/baseline.ts';
import { changesSince, type SourceChanges } from '../compare/source-changes.ts';
import { counted } from '../convert/plain-text.ts';
import type { DocumentSource } from '../document/document-source.ts';
import { ReportFailure, usageFailure } from '../document/failure.ts';
import { git } from '../document/git.ts';
import { writeWhole } from '../document/output-file.ts';
import { pathPrefix } from '../document/report-path.ts';
import type { AnalysisOptions } from '../scan/file-search.ts';
import type { JudgeOptions, Judgment } from './judge.ts';
import { type BaselineValues, inputSource } from './options.ts';
import { note, type ProgramIo } from './program-io.ts';

type Scope = Pick<AnalysisOptions, 'root' | 'pathPrefix'>;

/** With an update, the baseline file need not exist yet. */
export async function baselineInput(
  values: BaselineValues,
  scope: Scope,
  io: ProgramIo,
): Promise<Pick<JudgeOptions, 'baseline' | 'changes' | 'update'>> {
  const { baseline: name, accept: rules, reason = '', until } = values;
  if (name === undefined) return {};
  const path = resolve(io.cwd, name);
  const update =
    values['update-baseline'] === true
      ? {
          accept: rules && { rules, acceptance: { reason, until } },
          commit: attempt(() => commitIn(scope.root, 'HEAD')).value,
          isElsewhere: dirname(path) !== resolve(io.cwd, scope.root),
        }
      : undefined;
  if (update !== undefined && !existsSync(path)) return { update };
  if (update !== undefined && !statSync(path).isFile())
    throw usageFailure(`--update-baseline: ${name}: expected a regular file`);
  const baseline = await baselineSource(name, io);
  return { baseline, changes: changesSinceBaseline(baseline, path, values.renames, scope), update };
}

/** Throws ReportFailure if there is no such file, as before the first scan. */
export async function baselineSource(name: string, io: ProgramIo): Promise<DocumentSource> {
  if (name === '-' || existsSync(resolve(io.cwd, name))) return inputSource(name, io);
  throw new ReportFailure('baseline', `there is no baseline ${name}; write it with --update-baseline`);
}

/** Does not write the file if only its commit would change and git still has the old one. */
export async function writeBaseline(name = '', { updatedBaseline }: Judgment, io: ProgramIo): Promise<void> {
  if (updatedBaseline === undefined) return;
  const path = resolve(io.cwd, name);
  const { text, count, hasCommit } = updatedBaseline;
  if (hasCommit && existsSync(path) && isSameBaseline(readFileSync(path, 'utf8'), text)) return;
  await writeWhole(path, name, (sink) => sink(text));
  note(io, `the baseline ${name} now has ${counted(count, 'finding')}`);
}

const commitIn = (root: string, name: string): string =>
  git(root, ['rev-parse', '--verify', '--end-of-options', `${name}^{commit}`]).trim();

/**
 * Returns the first parent, if there is one, of the commit that last changed the file: a squash has the changes that
 * were made after the baseline, too. Returns '' in a shallow clone, where every file seems to be as old as the oldest
 * commit.
 */
function commitBefore(path: string, root: string): string {
  const isShallow = git(root, ['rev-parse', '--is-shallow-repository']).trim() === 'true';
  const last = isShallow ? '' : git(root, ['rev-list', '-1', 'HEAD', '--', path]).trim();
  const [, parent = last] = last === '' ? [] : git(root, ['rev-list', '--parents', '-1', last]).trim().split(' ');
  return parent;
}

function attempt<T>(work: () => T): { readonly value?: T; readonly fault: string } {
  try {
    return { value: work(), fault: '' };
  } catch (cause) {
    if (cause instanceof ReportFailure) return { fault: cause.message };
    throw cause;
  }
}

/** Returns the changes since the commit of `--renames` or of the baseline, or the reason why they are unknown. */
export function changesSinceBaseline(
  source: DocumentSource,
  path: string,
  renames: string | undefined,
  { root, pathPrefix: prefix }: Scope,
): SourceChanges | string {
  const since = (commit: () => string) => attempt(() => changesSince(commit(), root, pathPrefix(prefix).of('.')));
  if (renames !== undefined) {
    const fault = `--renames needs a commit that git has, as in git:main: ${renames}`;
    const named = since(() => commitIn(root, /^git:(.+)$/su.exec(renames)?.[1] ?? ''));
    if (named.value === undefined) throw usageFailure(`${fault}: ${named.fault}`);
    return named.value;
  }
  const commits = commitsIn(source);
  const [first] = commits;
  if (first === undefined) return 'the baseline names no commit; see --renames git:REF';
  // After a merge with merge=union, the file contains the first lines of both sides.
  const own = since(() => (commits.length === 1 ? first : git(root, ['merge-base', '--octopus', ...commits]).trim()));
  if (!/bad object|not a valid|merge-base: Command failed/iu.test(own.fault)) return own.value ?? own.fault;
  // A squash or a rebase replaces the commit that the baseline names.
  const missing = `git does not have its commit ${first.slice(0, 12)}`;
  const { value } = since(() => commitBefore(path, root));
  if (value === undefined) return `${missing} (is the clone shallow?)`;
  return { ...value, note: `${missing}, so the changes are those since the commit before it was last changed` };
}
