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
          commit: commitIn(scope.root, 'HEAD'),
          isElsewhere: dirname(path) !== resolve(io.cwd, scope.root),
        }
      : undefined;
  if (update !== undefined && !existsSync(path)) return { update };
  if (update !== undefined && !statSync(path).isFile())
    throw usageFailure(`--update-baseline: ${name}: expected a regular file`);
  const baseline = await inputSource(name, io);
  return { baseline, changes: changesSinceBaseline(baseline, values.renames, scope), update };
}

/** Does not write the file if only its commit would change. */
export async function writeBaseline(name = '', { updatedBaseline }: Judgment, io: ProgramIo): Promise<void> {
  if (updatedBaseline === undefined) return;
  const path = resolve(io.cwd, name);
  const { text, count } = updatedBaseline;
  if (existsSync(path) && isSameBaseline(readFileSync(path, 'utf8'), text)) return;
  await writeWhole(path, name, (sink) => sink(text));
  note(io, `the baseline ${name} now has ${counted(count, 'finding')}`);
}

function commitIn(root: string, name: string): string | undefined {
  try {
    return git(root, ['rev-parse', '--verify', '--quiet', '--end-of-options', `${name}^{commit}`]).trim();
  } catch {
    return undefined;
  }
}

/** Returns the changes since the commit of `--renames` or of the baseline, or the reason why they are unknown. */
export function changesSinceBaseline(
  source: DocumentSource,
  renames: string | undefined,
  { root, pathPrefix: prefix }: Scope,
): SourceChanges | string {
  const name = pathPrefix(prefix).of('.');
  if (renames !== undefined) {
    const commit = renames.startsWith('git:') ? commitIn(root, renames.slice(4)) : undefined;
    if (commit === undefined) throw usageFailure(`--renames needs a commit that git has, as in git:main: ${renames}`);
    return changesSince(commit, root, name);
  }
  const commits = commitsIn(source);
  const [first] = commits;
  if (first === undefined) return 'the baseline names no commit; see --renames git:REF';
  try {
    // After a merge with merge=union, the file contains the first lines of both sides.
    const base = commits.length === 1 ? first : git(root, ['merge-base', '--octopus', ...commits]).trim();
    return changesSince(base, root, name);
  } catch (cause) {
    if (!(cause instanceof ReportFailure)) throw cause;
    const isMissing = /bad object|not a valid/iu.test(cause.message);
    return isMissing ? `git does not have its commit ${first.slice(0, 12)} (is the clone shallow?)` : cause.message;
  }
}
