// `toollint scan`: from the command line to the written report.
import { join, resolve } from 'node:path';
import { usageFailure } from '../document/failure.ts';
import { isGlob } from '../document/file-pattern.ts';
import { BASELINE_OPTIONS, baselineOptions, checkBaselineFlags, writeBaseline } from './baseline-options.ts';
import { gateFrom, parseCommand, type Values, VERDICT_OPTIONS } from './command-options.ts';
import { planOutput, verdictOf, writeOutput } from './command-output.ts';
import { note, type ProgramIo, ProgressLine } from './program-io.ts';
import { scan, type ScanOptions } from './scan.ts';

export const SCAN_OPTIONS = {
  root: { type: 'string' },
  config: { type: 'string', short: 'c' },
  include: { type: 'string', multiple: true },
  exclude: { type: 'string', multiple: true },
  ext: { type: 'string', multiple: true },
  quiet: { type: 'boolean' },
  timestamp: { type: 'string' },
  deterministic: { type: 'boolean' },
  'no-snippets': { type: 'boolean' },
  'path-prefix': { type: 'string' },
  cache: { type: 'boolean' },
  'cache-location': { type: 'string' },
  ...BASELINE_OPTIONS,
  ...VERDICT_OPTIONS,
} as const;

type ScanValues = Values<typeof SCAN_OPTIONS>;

export async function runScan(args: readonly string[], io: ProgramIo): Promise<number> {
  const { values, positionals } = parseCommand(args, SCAN_OPTIONS);
  const options = scanOptions(values, positionals, io);
  checkBaselineFlags(values, options.timestamp);
  checkPrune(values, positionals);
  const gate = await gateFrom(values, io);
  const plan = await planOutput(values, io, [values.baseline ?? []].flat());
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

/** A scan of a part verifies nothing of the rest, which --prune would drop. */
function checkPrune(values: ScanValues, paths: readonly string[]): void {
  const partial = (['include', 'exclude', 'ext'] as const).find((name) => values[name] !== undefined);
  if (values.prune === true && (paths.length > 0 || partial !== undefined))
    throw usageFailure(
      `--prune needs a scan of the whole root: leave out ${partial === undefined ? 'paths' : `--${partial}`}`,
    );
}

function scanOptions(values: ScanValues, paths: readonly string[], io: ProgramIo): ScanOptions {
  const { config } = values;
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
