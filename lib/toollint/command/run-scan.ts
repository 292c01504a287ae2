// `toollint scan`: from the command line to the written report.
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { counted } from '../convert/plain-text.ts';
import { writeWhole } from '../document/output-file.ts';
import type { ReportSource } from '../document/report-source.ts';
import { writeReport } from '../document/report-writer.ts';
import { readRenames } from './renames.ts';
import { isProfileName, PROFILE_NAMES } from '../scan/bundled-profile.ts';
import {
  exitFlags,
  GATE_OPTIONS,
  gateFrom,
  inputSource,
  OUTPUT_OPTIONS,
  parseCommand,
  VERDICT_OPTIONS,
} from './command-options.ts';
import { planOutput, tellVerdict, writeOutput } from './command-output.ts';
import { reportExitCode } from './exit-code.ts';
import { ReportFailure } from '../document/failure.ts';
import { isGlob } from '../document/file-pattern.ts';
import { note, type ProgramIo } from './program-io.ts';
import { ProgressLine } from './progress-line.ts';
import { scan } from '../scan/scan.ts';
import type { ScanOptions } from '../scan/scan-options.ts';

/** Options of the verb, for parseArgs. */
export const SCAN_OPTIONS = {
  root: { type: 'string' },
  config: { type: 'string', short: 'c' },
  profile: { type: 'string' },
  include: { type: 'string', multiple: true },
  exclude: { type: 'string', multiple: true },
  ext: { type: 'string', multiple: true },
  quiet: { type: 'boolean' },
  baseline: { type: 'string' },
  timestamp: { type: 'string' },
  deterministic: { type: 'boolean' },
  'no-snippets': { type: 'boolean' },
  'update-baseline': { type: 'boolean' },
  'path-prefix': { type: 'string' },
  renames: { type: 'string' },
  cache: { type: 'boolean' },
  'cache-location': { type: 'string' },
  ...VERDICT_OPTIONS,
  ...OUTPUT_OPTIONS,
  ...GATE_OPTIONS,
} as const;

type ScanValues = ReturnType<typeof parseCommand<typeof SCAN_OPTIONS>>['values'];

/** Runs the verb; the exit code. */
export async function runScan(args: readonly string[], io: ProgramIo): Promise<number> {
  const { values, positionals } = parseCommand(args, SCAN_OPTIONS);
  const gate = await gateFrom(values, io);
  const options = scanOptions(values, positionals, io);
  const renames = values.renames === undefined ? undefined : await readRenames(values.renames, options.root, io.cwd);
  const plan = await planOutput(values, io, values.baseline === undefined ? [] : [values.baseline]);
  const baseline = values.baseline === undefined ? undefined : await inputSource(values.baseline, io);
  const progress = new ProgressLine(io.stderr, io.env);
  try {
    const outcome = await scan({
      ...options,
      gate,
      baseline,
      renames,
      progress: (...state) => progress.update(...state),
    }).finally(() => progress.end());
    try {
      for (const text of outcome.notes) note(io, text);
      await writeOutput(plan, outcome.report, io);
      const {
        updatedBaseline,
        errors,
        linter,
        report: { header },
      } = outcome;
      if (updatedBaseline !== undefined && values.baseline !== undefined)
        await writeBaseline(values.baseline, updatedBaseline, io);
      const code = reportExitCode(header, errors, exitFlags(values));
      tellVerdict(plan, values, { header, errors, code, linter }, io);
      return code;
    } finally {
      await outcome.close();
    }
  } finally {
    await baseline?.close();
  }
}

/** Writes the ratchet's new baseline over the old one, unless nothing has changed but the time. */
async function writeBaseline(name: string, report: ReportSource, io: ProgramIo): Promise<void> {
  const path = resolve(io.cwd, name);
  const withoutTime = (text: string) => text.replace(/"timestamp":"[^"]*","durationMs":[0-9.e+-]+/u, '');
  let text = '';
  await writeReport(report, async (part) => {
    text += await Promise.resolve(part);
  });
  if (withoutTime(text) === withoutTime(await readFile(path, 'utf8'))) return;
  await writeWhole(path, name, (sink) => sink(text));
  note(io, `the baseline ${name} now has ${counted(report.header.summary.totalIssues, 'finding')}`);
}

function scanOptions(values: ScanValues, paths: readonly string[], io: ProgramIo): ScanOptions {
  const { profile, config } = values;
  if (profile !== undefined && !isProfileName(profile)) {
    throw new ReportFailure('usage', `unknown profile '${profile}': known are ${PROFILE_NAMES.join(', ')}`);
  }
  if (values.renames !== undefined && values.baseline === undefined)
    throw new ReportFailure('usage', '--renames needs --baseline');
  if (values['update-baseline'] === true && values.baseline === undefined) {
    throw new ReportFailure('usage', '--update-baseline needs --baseline');
  }
  if (values['update-baseline'] === true && values.baseline === '-')
    throw new ReportFailure('usage', '--update-baseline needs a file');
  if (profile !== undefined && config !== undefined)
    throw new ReportFailure('usage', '--profile and --config exclude each other');
  return {
    root: resolve(io.cwd, values.root ?? '.'),
    cwd: io.cwd,
    paths,
    include: (values.include ?? []).flatMap(withFolder),
    exclude: (values.exclude ?? []).flatMap(withFolder),
    extensions: extensionsOf(values.ext ?? []),
    profile: profile ?? null,
    config: config === undefined ? undefined : resolve(io.cwd, config),
    quiet: values.quiet === true,
    timestamp: timestampOf(values, io.env),
    deterministic: values.deterministic === true,
    snippets: values['no-snippets'] !== true,
    updateBaseline: values['update-baseline'] === true,
    pathPrefix: values['path-prefix'] ?? '',
    cache: cachePath(values, io),
    signal: io.signal,
  };
}

/** Where results are kept; undefined: nowhere. */
function cachePath(values: ScanValues, { cwd }: ProgramIo): string | undefined {
  const place = values['cache-location'];
  if (place === '') throw new ReportFailure('usage', '--cache-location needs a file name');
  if (values.cache !== true) return undefined;
  return place === undefined ? join(resolve(cwd, values.root ?? '.'), '.toollintcache') : resolve(cwd, place);
}

/** A plain name without an ending may be a folder, and then means what is in it. */
function withFolder(pattern: string): string[] {
  if (pattern === '') throw new ReportFailure('usage', '--include and --exclude need a pattern');
  const name = pattern.split('/').at(-1) ?? '';
  return isGlob(pattern) || name === '' || name.includes('.') ? [pattern] : [pattern, `${pattern}/**`];
}

function extensionsOf(lists: readonly string[]): string[] {
  const endings = lists.flatMap((list) => list.split(',')).map((ending) => ending.trim().replace(/^\./u, ''));
  if (endings.some((ending) => !/^[A-Za-z0-9_.-]+$/u.test(ending)))
    throw new ReportFailure('usage', '--ext needs endings as in --ext js,ts');
  return [...new Set(endings)].sort();
}

/** The time to write down; undefined: now, or none when deterministic. */
function timestampOf({ timestamp }: ScanValues, env: ProgramIo['env']): string | undefined {
  if (timestamp !== undefined) {
    if (!/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}/u.test(timestamp) || Number.isNaN(Date.parse(timestamp))) {
      throw new ReportFailure('usage', `--timestamp needs a time such as 2026-01-31T12:00:00Z, not '${timestamp}'`);
    }
    return timestamp;
  }
  const epoch = env['SOURCE_DATE_EPOCH'];
  if (epoch === undefined || epoch === '') return undefined;
  const date = new Date(Number(epoch) * 1000);
  if (!/^[0-9]+$/u.test(epoch) || Number.isNaN(date.getTime()))
    throw new ReportFailure('usage', `SOURCE_DATE_EPOCH needs seconds, not '${epoch}'`);
  return date.toISOString();
}
