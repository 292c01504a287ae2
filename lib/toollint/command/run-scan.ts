import { resolve } from 'node:path';
import { usageFailure } from '../document/failure.ts';
import { isGlob } from '../document/file-pattern.ts';
import { BASELINE_OPTIONS, baselineOptions, checkBaselineFlags, writeBaseline } from './baseline-options.ts';
import { checkTimestamp, gateFrom, parseCommand, type Values, VERDICT_OPTIONS } from './command-options.ts';
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
  'path-prefix': { type: 'string' },
  ...BASELINE_OPTIONS,
  ...VERDICT_OPTIONS,
} as const;

type ScanValues = Values<typeof SCAN_OPTIONS>;

export async function runScan(args: readonly string[], io: ProgramIo): Promise<number> {
  const { values, positionals } = parseCommand(args, SCAN_OPTIONS);
  const options = scanOptions(values, positionals, io);
  checkTimestamp(values.timestamp);
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

/** A partial scan cannot verify findings outside its scope, so --prune would drop them. */
function checkPrune(values: ScanValues, paths: readonly string[]): void {
  const partial = (['include', 'exclude', 'ext'] as const).find((name) => values[name] !== undefined);
  if (values.prune === true && (paths.length > 0 || partial !== undefined))
    throw usageFailure(
      `--prune needs a scan of the whole root: leave out ${partial === undefined ? 'paths' : `--${partial}`}`,
    );
}

function scanOptions(values: ScanValues, paths: readonly string[], io: ProgramIo): ScanOptions {
  const { config } = values;
  const root = resolve(io.cwd, values.root ?? '.');
  return {
    root,
    cwd: io.cwd,
    paths,
    include: (values.include ?? []).flatMap(withFolder),
    exclude: (values.exclude ?? []).flatMap(withFolder),
    extensions: extensionsOf(values.ext ?? []),
    config: config === undefined ? undefined : resolve(io.cwd, config),
    quiet: values.quiet === true,
    timestamp: values.timestamp,
    deterministic: values.deterministic === true,
    pathPrefix: values['path-prefix'] ?? '',
    signal: io.signal,
  };
}

/** A name without an extension may be a folder, so the pattern also covers the files in it. */
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
