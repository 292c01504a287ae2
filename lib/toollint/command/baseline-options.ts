// The options around a baseline, of `scan` and `import`: the file, its update, and the changes since it was made.
import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { commitsIn, isBaselineFile, isDay, isSameBaseline } from '../compare/baseline-file.ts';
import { changesSince, git, type SourceChanges } from '../compare/source-changes.ts';
import { counted } from '../convert/plain-text.ts';
import { type DocumentSource, fileSource, textIn } from '../document/document-source.ts';
import { ReportFailure, usageFailure } from '../document/failure.ts';
import { writeWhole } from '../document/output-file.ts';
import { isObject, looseJson } from '../document/strict-json.ts';
import { PathPrefix } from '../scan/path-prefix.ts';
import { inputSource, type Values } from './command-options.ts';
import type { JudgeOptions, Judgment } from './judge.ts';
import { note, type ProgramIo } from './program-io.ts';

/** parseArgs' description of these options. */
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

/** The folder of the files, and what the report's paths begin with. */
interface ScanScope {
  readonly root: string;
  readonly pathPrefix?: string;
}

/** Throws ReportFailure for options that do not fit together. `now` is the time of the scan. */
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

/**
 * The baseline, the changes since, and what is to become of it. A file that does not exist may be made by an update.
 */
export async function baselineOptions(
  values: BaselineValues,
  scope: ScanScope,
  io: ProgramIo,
): Promise<Pick<JudgeOptions, 'baseline' | 'changes' | 'renames' | 'update'>> {
  const { baseline: name, accept, reason = '', until, owner, prune } = values;
  if (name === undefined) return {};
  const given = await changesGiven(values.renames, io.cwd, scope);
  const update =
    values['update-baseline'] === true
      ? {
          accept: accept === undefined ? undefined : { rules: accept, acceptance: { reason, until, owner } },
          prune: prune === true,
          commit: await headOf(scope.root),
        }
      : undefined;
  if (update !== undefined && !existsSync(resolve(io.cwd, name))) return { update };
  const baseline = await inputSource(name, io);
  return { baseline, changes: await changesSinceBaseline(baseline, scope), update, ...given };
}

/** Writes the new baseline, unless only its commit would change. */
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

/** The changes since the commit that a baseline file names; or why they are unknown. */
export async function changesSinceBaseline(source: DocumentSource, scope: ScanScope): Promise<SourceChanges | string> {
  const commits = isBaselineFile(source) ? commitsIn(source) : [];
  const [first = ''] = commits;
  if (commits.length === 0) return 'the baseline names no commit; see --renames git:REF';
  try {
    // A merge with merge=union keeps the first lines of both sides.
    const base = commits.length === 1 ? first : (await git(scope.root, ['merge-base', '--octopus', ...commits])).trim();
    return await changesSince(base, scope.root, nameOf(scope));
  } catch (cause) {
    if (!(cause instanceof ReportFailure)) throw cause;
    return `git does not have its commit ${first.slice(0, 12)} (is the clone shallow?)`;
  }
}

/** The report's name for the root. */
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

/** The changes that `--renames git:REF|FILE` names. Throws ReportFailure. */
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
