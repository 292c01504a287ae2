// `toollint scan`: from the command line to the written report.
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { isDay } from '../compare/baseline-file.ts';
import { counted } from '../convert/plain-text.ts';
import { usageFailure } from '../document/failure.ts';
import { isGlob } from '../document/file-pattern.ts';
import { writeWhole } from '../document/output-file.ts';
import { gateFrom, inputSource, parseCommand, type Values, VERDICT_OPTIONS } from './command-options.ts';
import { planOutput, verdictOf, writeOutput } from './command-output.ts';
import { changesGiven, changesSinceFile, gitBaseline } from './git-baseline.ts';
import { note, type ProgramIo, ProgressLine } from './program-io.ts';
import { scan, type ScanOptions, type ScanOutcome } from './scan.ts';

export const SCAN_OPTIONS = {
  root: { type: 'string' },
  config: { type: 'string', short: 'c' },
  include: { type: 'string', multiple: true },
  exclude: { type: 'string', multiple: true },
  ext: { type: 'string', multiple: true },
  quiet: { type: 'boolean' },
  baseline: { type: 'string' },
  timestamp: { type: 'string' },
  deterministic: { type: 'boolean' },
  'no-snippets': { type: 'boolean' },
  'update-baseline': { type: 'boolean' },
  accept: { type: 'string', multiple: true },
  reason: { type: 'string' },
  until: { type: 'string' },
  owner: { type: 'string' },
  'path-prefix': { type: 'string' },
  renames: { type: 'string' },
  cache: { type: 'boolean' },
  'cache-location': { type: 'string' },
  ...VERDICT_OPTIONS,
} as const;

type ScanValues = Values<typeof SCAN_OPTIONS>;

export async function runScan(args: readonly string[], io: ProgramIo): Promise<number> {
  const { values, positionals } = parseCommand(args, SCAN_OPTIONS);
  checkBaselineFlags(values);
  const gate = await gateFrom(values, io);
  const options = scanOptions(values, positionals, io);
  const files = [values.baseline ?? []].flat().filter((name) => !name.startsWith('git:'));
  const plan = await planOutput(values, io, files);
  const progress = new ProgressLine(io);
  const outcome = await scan({
    ...options,
    ...(await baselineOptions(values, options, io)),
    gate,
    progress: (...state) => progress.update(...state),
  }).finally(() => progress.end());
  for (const text of outcome.notes) note(io, text);
  await writeOutput(plan, outcome.report, io);
  await writeBaseline(values.baseline, outcome, io);
  return verdictOf(plan, values, outcome, io);
}

function checkBaselineFlags(values: ScanValues): void {
  const usage = (message: string): never => {
    throw usageFailure(message);
  };
  const updates = values['update-baseline'] === true;
  if (values.renames !== undefined && values.baseline === undefined) usage('--renames needs --baseline');
  if (updates && values.baseline === undefined) usage('--update-baseline needs --baseline');
  if (updates && (values.baseline === '-' || values.baseline?.startsWith('git:') === true))
    usage('--update-baseline needs a file');
  if (values.accept !== undefined && !updates) usage('--accept needs --update-baseline');
  if (values.accept !== undefined && (values.reason ?? '').trim() === '') usage('--accept needs --reason');
  for (const name of ['reason', 'until', 'owner'] as const)
    if (values[name] !== undefined && values.accept === undefined) usage(`--${name} needs --accept`);
  if (values.until !== undefined && !isDay(values.until))
    usage(`--until needs a day such as 2026-12-31, not '${String(values.until)}'`);
}

/** The baseline, and what is known of the lines since. A file that is not there yet may be written by an update. */
async function baselineOptions(
  values: ScanValues,
  options: ScanOptions,
  io: ProgramIo,
): Promise<Pick<ScanOptions, 'baseline' | 'changes' | 'renames'>> {
  const { baseline: name, renames: given } = values;
  if (name === undefined) return {};
  const { changes: since, renames } = await changesGiven(given, io.cwd, options);
  if (name.startsWith('git:')) {
    const { baseline, changes } = await gitBaseline(name, options);
    return { baseline, changes: since ?? changes, renames };
  }
  const path = resolve(io.cwd, name);
  if (values['update-baseline'] === true && !existsSync(path)) return {};
  const baseline = await inputSource(name, io);
  // Only lines are taken from the history of the file: a rename is followed when it is asked for.
  const changes = since ?? (name === '-' ? undefined : await changesSinceFile(path, options));
  return { baseline, changes, renames: renames ?? new Map<string, string>() };
}

/** Writes the new baseline, unless nothing has changed. */
async function writeBaseline(name: string | undefined, { updatedBaseline }: ScanOutcome, io: ProgramIo): Promise<void> {
  if (updatedBaseline === undefined || name === undefined) return;
  const path = resolve(io.cwd, name);
  const { text, count } = updatedBaseline;
  if (existsSync(path) && readFileSync(path, 'utf8') === text) return;
  await writeWhole(path, name, (sink) => sink(text));
  note(io, `the baseline ${name} now has ${counted(count, 'finding')}`);
}

function scanOptions(values: ScanValues, paths: readonly string[], io: ProgramIo): ScanOptions {
  const { config, accept, reason = '', until, owner } = values;
  return {
    root: resolve(io.cwd, values.root ?? '.'),
    cwd: io.cwd,
    paths,
    include: (values.include ?? []).flatMap(withFolder),
    exclude: (values.exclude ?? []).flatMap(withFolder),
    extensions: extensionsOf(values.ext ?? []),
    config: config === undefined ? undefined : resolve(io.cwd, config),
    quiet: values.quiet === true,
    timestamp: timestampOf(values, io.env),
    deterministic: values.deterministic === true,
    snippets: values['no-snippets'] !== true,
    updateBaseline: values['update-baseline'] === true,
    accept: accept === undefined ? undefined : { rules: accept, acceptance: { reason, until, owner } },
    pathPrefix: values['path-prefix'] ?? '',
    cache: cachePath(values, io),
    signal: io.signal,
  };
}

/** Where ESLint's cache is; undefined: nowhere. */
function cachePath(values: ScanValues, { cwd }: ProgramIo): string | undefined {
  const place = values['cache-location'];
  if (place === '') throw usageFailure('--cache-location needs a file name');
  if (values.cache !== true) return undefined;
  return place === undefined ? join(resolve(cwd, values.root ?? '.'), '.toollintcache') : resolve(cwd, place);
}

/** A plain name without an ending may be a folder, and then means what is in it. */
function withFolder(pattern: string): string[] {
  if (pattern === '') throw usageFailure('--include and --exclude need a pattern');
  const name = pattern.split('/').at(-1) ?? '';
  return isGlob(pattern) || name === '' || name.includes('.') ? [pattern] : [pattern, `${pattern}/**`];
}

function extensionsOf(lists: readonly string[]): string[] {
  const endings = lists.flatMap((list) => list.split(',')).map((ending) => ending.trim().replace(/^\./u, ''));
  if (endings.some((ending) => !/^[A-Za-z0-9_.-]+$/u.test(ending)))
    throw usageFailure('--ext needs endings as in --ext js,ts');
  return [...new Set(endings)].sort();
}

/** The time to write down; undefined: now, or none when deterministic. */
function timestampOf({ timestamp }: ScanValues, env: ProgramIo['env']): string | undefined {
  if (timestamp !== undefined) {
    if (!/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}/u.test(timestamp) || Number.isNaN(Date.parse(timestamp)))
      throw usageFailure(`--timestamp needs a time such as 2026-01-31T12:00:00Z, not '${timestamp}'`);
    return timestamp;
  }
  const epoch = env['SOURCE_DATE_EPOCH'] ?? '';
  if (epoch === '') return undefined;
  const date = new Date(Number(epoch) * 1000);
  if (!/^[0-9]+$/u.test(epoch) || Number.isNaN(date.getTime()))
    throw usageFailure(`SOURCE_DATE_EPOCH needs seconds, not '${epoch}'`);
  return date.toISOString();
}
