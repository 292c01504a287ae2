import { existsSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { commitsIn, isBaselineFile, isDay, isSameBaseline } from '../compare/baseline-file.ts';
import { changesSince, git, type SourceChanges } from '../compare/source-changes.ts';
import { counted } from '../convert/plain-text.ts';
import type { DocumentSource } from '../document/document-source.ts';
import { ReportFailure, usageFailure } from '../document/failure.ts';
import { writeWhole } from '../document/output-file.ts';
import { PathPrefix } from '../scan/path-prefix.ts';
import { inputSource, type Values } from './command-options.ts';
import type { JudgeOptions, Judgment } from './judge.ts';
import { note, type ProgramIo } from './program-io.ts';

export const BASELINE_OPTIONS = {
  baseline: { type: 'string' },
  'update-baseline': { type: 'boolean' },
  prune: { type: 'boolean' },
  accept: { type: 'string', multiple: true },
  reason: { type: 'string' },
  until: { type: 'string' },
  owner: { type: 'string' },
  renames: { type: 'string' },
} as const;

type BaselineValues = Values<typeof BASELINE_OPTIONS>;

interface ScanScope {
  readonly root: string;
  readonly pathPrefix?: string;
}

/** `now` is the time of the scan. Throws ReportFailure for options that contradict each other. */
export function checkBaselineFlags(values: BaselineValues, now = new Date().toISOString()): void {
  const { baseline, accept, until } = values;
  const updates = values['update-baseline'] === true;
  const refuse = (message: string): never => {
    throw usageFailure(message);
  };
  if (baseline?.startsWith('git:') === true)
    refuse('--baseline needs a file; for a commit, commit a baseline file: see --update-baseline');
  for (const name of ['renames', 'update-baseline'] as const)
    if (values[name] !== undefined && baseline === undefined) refuse(`--${name} needs --baseline`);
  if (updates && baseline === '-') refuse('--update-baseline needs a file');
  for (const name of ['accept', 'prune'] as const)
    if (values[name] !== undefined && !updates) refuse(`--${name} needs --update-baseline`);
  if (accept !== undefined && (values.reason ?? '').trim() === '') refuse('--accept needs --reason');
  for (const name of ['reason', 'until', 'owner'] as const)
    if (values[name] !== undefined && accept === undefined) refuse(`--${name} needs --accept`);
  if (until === undefined) return;
  if (!isDay(until)) refuse(`--until needs a day such as 2026-12-31, not '${String(until)}'`);
  if (until < now.slice(0, 10)) refuse(`--until ${until} is in the past`);
}

/** With an update, the baseline file need not exist yet. */
export async function baselineOptions(
  values: BaselineValues,
  scope: ScanScope,
  io: ProgramIo,
): Promise<Pick<JudgeOptions, 'baseline' | 'changes' | 'update'>> {
  const { baseline: name, accept, reason = '', until, owner, prune } = values;
  if (name === undefined) return {};
  const update =
    values['update-baseline'] === true
      ? {
          accept: accept === undefined ? undefined : { rules: accept, acceptance: { reason, until, owner } },
          prune: prune === true,
          commit: await headOf(scope.root),
          isElsewhere: dirname(resolve(io.cwd, name)) !== resolve(io.cwd, scope.root),
        }
      : undefined;
  if (update !== undefined && !existsSync(resolve(io.cwd, name))) return { update };
  const baseline = await inputSource(name, io);
  return { baseline, changes: await changesSinceBaseline(baseline, values.renames, scope), update };
}

/** Does not write the file if only its commit would change. */
export async function writeBaseline(
  name: string | undefined,
  { updatedBaseline }: Judgment,
  io: ProgramIo,
): Promise<void> {
  if (updatedBaseline === undefined || name === undefined) return;
  const path = resolve(io.cwd, name);
  const { text, count } = updatedBaseline;
  if (existsSync(path) && isSameBaseline(readFileSync(path, 'utf8'), text)) return;
  await writeWhole(path, name, (sink) => sink(text));
  note(io, `the baseline ${name} now has ${counted(count, 'finding')}`);
}

async function headOf(root: string): Promise<string | undefined> {
  return (await git(root, ['rev-parse', '--verify', '--quiet', 'HEAD']).catch(() => undefined))?.trim();
}

/**
 * Returns the changes since the commit of `--renames` or of the baseline file, or the reason why git cannot list
 * them.
 */
export async function changesSinceBaseline(
  source: DocumentSource,
  renames: string | undefined,
  { root, pathPrefix = '' }: ScanScope,
): Promise<SourceChanges | string> {
  const name = new PathPrefix(pathPrefix).of('.');
  if (renames !== undefined) return changesSince(await commitOf(renames, root), root, name);
  const commits = isBaselineFile(source) ? commitsIn(source) : [];
  const [first = ''] = commits;
  if (commits.length === 0) return 'the baseline names no commit; see --renames git:REF';
  try {
    // After a merge with merge=union, the file contains the first lines of both sides.
    const base = commits.length === 1 ? first : (await git(root, ['merge-base', '--octopus', ...commits])).trim();
    return await changesSince(base, root, name);
  } catch (cause) {
    if (!(cause instanceof ReportFailure)) throw cause;
    return `git does not have its commit ${first.slice(0, 12)} (is the clone shallow?)`;
  }
}

async function commitOf(text: string, root: string): Promise<string> {
  const [, name] = /^git:(.+)$/u.exec(text) ?? [];
  if (name === undefined) throw usageFailure(`--renames needs a commit, as in git:main, not '${text}'`);
  const find = ['rev-parse', '--verify', '--quiet', '--end-of-options', `${name}^{commit}`];
  const commit = await git(root, find).catch((cause: unknown) => {
    throw new ReportFailure('usage', `${text}: git has no commit ${name}`, cause);
  });
  return commit.trim();
}
