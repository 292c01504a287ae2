// The outputs of a run: standard output, `-o`, and files (`--format sarif=out.sarif`). They are checked before the
// work starts and written after it.
import { existsSync } from 'node:fs';
import { realpath } from 'node:fs/promises';
import { posix, resolve } from 'node:path';
import { convert, type Format, FORMATS, isFormat } from '../convert/convert.ts';
import type { ConvertOptions } from '../convert/converter.ts';
import { linkOf } from '../convert/plain-text.ts';
import { SARIF_RESULTS_MAX } from '../convert/to-sarif.ts';
import { throwIfInterrupted, usageFailure } from '../document/failure.ts';
import { checkWritable, writeWhole } from '../document/output-file.ts';
import type { Report, ReportHeader } from '../document/report-schema.ts';
import { countOption, type OUTPUT_OPTIONS, type Values } from './options.ts';
import { note, type ProgramIo, streamSink } from './program-io.ts';

type OutputValues = Values<typeof OUTPUT_OPTIONS> & {
  readonly root?: string | undefined;
  readonly 'path-prefix'?: string | undefined;
};

/** Without a file, the document goes to standard output. */
interface Target {
  readonly format: Format;
  file?: { path: string; name: string };
}

export interface OutputPlan {
  readonly targets: Target[];
  readonly options: ConvertOptions;
}

/** Throws ReportFailure for an unknown format, two documents in one place, or a place that is also an input. */
export async function planOutput(
  values: OutputValues,
  io: ProgramIo,
  inputs: readonly string[] = [],
): Promise<OutputPlan> {
  const asked = [...(values.format ?? []), ...(values.to ?? [])].map((text) => targetOf(text, io));
  const main = asked.filter((target) => target.file === undefined);
  if (main.length > 1)
    throw usageFailure('two formats for one output: name a file for each, as in --format sarif=out.sarif');
  const [first] = main;
  if (values.output !== undefined) {
    if (values.output === '') throw usageFailure('-o needs a file name');
    const file = fileOf(values.output, io);
    if (first === undefined) asked.unshift({ format: 'report', file });
    else first.file = file;
  } else if (asked.length === 0) {
    asked.push({ format: io.stdout.isTTY === true ? 'pretty' : 'report' });
  }
  await checkPlaces(asked, io, inputs);
  return { targets: asked, options: convertOptions(values, io) };
}

function targetOf(text: string, io: ProgramIo): Target {
  const at = text.indexOf('=');
  const format = at < 0 ? text : text.slice(0, at);
  if (!isFormat(format)) throw usageFailure(`unknown format '${format}': known are ${FORMATS.join(', ')}`);
  const name = at < 0 ? undefined : text.slice(at + 1);
  if (name === '') throw usageFailure(`--format ${format}= needs a file name`);
  return name === undefined ? { format } : { format, file: fileOf(name, io) };
}

/** Throws ReportFailure for `-`, because a file of that name is hard to remove. */
function fileOf(name: string, io: ProgramIo): { path: string; name: string } {
  if (name !== '-') return { path: resolve(io.cwd, name), name };
  throw usageFailure("'-' is not the name of an output: standard output needs no name");
}

async function checkPlaces(targets: readonly Target[], io: ProgramIo, inputs: readonly string[]): Promise<void> {
  const realPlace = (path: string) => realpath(path).catch(() => path);
  const files = inputs.filter((path) => path !== '-').map((path) => resolve(io.cwd, path));
  const taken = new Set(await Promise.all(files.map(realPlace)));
  for (const { file } of targets) {
    if (file === undefined) continue;
    const place = await realPlace(file.path);
    if (taken.has(place)) throw usageFailure(`${file.name} is read or written already; choose another output`);
    taken.add(place);
    await checkWritable(file.path, file.name);
  }
}

function convertOptions(values: OutputValues, { env, cwd, stdout }: ProgramIo): ConvertOptions {
  const choice = values.color ?? 'auto';
  if (!['auto', 'always', 'never'].includes(choice))
    throw usageFailure(`--color is auto, always or never, not '${choice}'`);
  const results = values['max-results'];
  const noColor = env['NO_COLOR'] !== undefined && env['NO_COLOR'] !== '';
  return {
    color: choice === 'always' || (choice === 'auto' && stdout.isTTY === true && !noColor && env['TERM'] !== 'dumb'),
    // A terminal of unknown width reports 0.
    width: stdout.isTTY === true ? stdout.columns || 80 : Infinity,
    links: linksFor(values['source-url'], env),
    projectFile: existsSync(resolve(cwd, values.root ?? '.', 'package.json'))
      ? posix.join(values['path-prefix'] ?? '', 'package.json')
      : undefined,
    resultsMax: results === undefined ? undefined : countOption('--max-results', results),
  };
}

/** Returns a URL that ends with exactly one slash, because paths are appended. In a GitHub job, it is known. */
function linksFor(text: string | undefined, env: ProgramIo['env']): string | undefined {
  if (text !== undefined) {
    const url = linkOf(text);
    if (url === undefined) throw usageFailure(`--source-url needs an http or https address, not '${text}'`);
    return url.replace(/\/*$/u, '/');
  }
  const { GITHUB_SERVER_URL: server, GITHUB_REPOSITORY: repository, GITHUB_SHA: commit } = env;
  if (server === undefined || repository === undefined || commit === undefined) return undefined;
  return `${server}/${repository}/blob/${commit}/`;
}

export async function writeOutput(
  plan: OutputPlan,
  report: Report,
  io: ProgramIo,
  extra: ConvertOptions = {},
): Promise<void> {
  throwIfInterrupted(io.signal);
  for (const { format, file } of plan.targets) {
    const options = { ...plan.options, ...extra };
    if (format === 'sarif') for (const text of sarifNotes(report, options)) note(io, text);
    if (file === undefined) await convert(report, format, streamSink(io.stdout, 'standard output'), options);
    else {
      const inFile = { ...options, color: false, width: Infinity };
      await writeWhole(file.path, file.name, (sink) => convert(report, format, sink, inFile));
    }
  }
}

/** Yields warnings about SARIF that GitHub rejects or that closes alerts. */
function* sarifNotes({ summary, selection }: ReportHeader, options: ConvertOptions): Generator<string> {
  const { totalIssues } = summary;
  const { baselineState, resultsMax = totalIssues } = options;
  if (resultsMax < totalIssues) yield `${resultsMax} of ${totalIssues} results are written to SARIF (--max-results)`;
  if (Math.min(resultsMax, totalIssues) > SARIF_RESULTS_MAX)
    yield `more results than the ${SARIF_RESULTS_MAX} that GitHub accepts: it will refuse the file; see --max-results`;
  if (selection.baseline !== undefined && baselineState === undefined)
    yield 'this SARIF lists only what is new: GitHub closes the alerts that are not in it';
}
