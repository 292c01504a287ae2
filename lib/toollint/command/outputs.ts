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
  readonly file?: string | undefined;
}

export interface OutputPlan {
  readonly targets: readonly Target[];
  readonly options: ConvertOptions;
}

/** Throws ReportFailure for an unknown format, two documents in one place, or a place that is also an input. */
export async function planOutput(
  values: OutputValues,
  io: ProgramIo,
  inputs: readonly string[] = [],
): Promise<OutputPlan> {
  const asked = [...(values.format ?? []), ...(values.to ?? [])].map(targetOf);
  const [main, second] = asked.filter(({ file }) => file === undefined);
  if (second !== undefined)
    throw usageFailure('two formats for one output: name a file for each, as in --format sarif=out.sarif');
  const { output } = values;
  const standard = asked.length === 0 && output === undefined && io.stdout.isTTY === true ? 'pretty' : 'report';
  const needsMain = main === undefined && (output !== undefined || asked.length === 0);
  const targets = (needsMain ? [{ format: standard, file: undefined } as const, ...asked] : asked).map(
    ({ format, file }): Target => ({ format, file: file ?? output }),
  );
  const real = (name: string) => realpath(resolve(io.cwd, name)).catch(() => resolve(io.cwd, name));
  const taken = new Set(await Promise.all(inputs.filter((name) => name !== '-').map(real)));
  for (const { file } of targets) {
    if (file === undefined) continue;
    if (file === '') throw usageFailure('an output needs a file name, as in -o FILE or --format sarif=FILE');
    // A file of this name is hard to remove.
    if (file === '-') throw usageFailure("'-' is not the name of an output: standard output needs no name");
    const place = await real(file);
    if (taken.has(place)) throw usageFailure(`${file} is read or written already; choose another output`);
    taken.add(place);
    await checkWritable(resolve(io.cwd, file), file);
  }
  return { targets, options: convertOptions(values, io) };
}

function targetOf(text: string): Target {
  const [, format = '', file] = /^([^=]*)(?:=(.*))?$/su.exec(text) ?? [];
  if (!isFormat(format)) throw usageFailure(`unknown format '${format}': known are ${FORMATS.join(', ')}`);
  return { format, file };
}

function convertOptions(values: OutputValues, { env, cwd, stdout }: ProgramIo): ConvertOptions {
  const { color = 'auto', 'max-results': results, 'path-prefix': prefix = '' } = values;
  if (!['auto', 'always', 'never'].includes(color))
    throw usageFailure(`--color is auto, always or never, not '${color}'`);
  const isPlain = stdout.isTTY !== true || Boolean(env['NO_COLOR']) || env['TERM'] === 'dumb';
  return {
    color: color === 'always' || (color === 'auto' && !isPlain),
    // A terminal of unknown width reports 0.
    width: stdout.isTTY === true ? stdout.columns || 80 : Infinity,
    links: linksFor(values['source-url'], env),
    projectFile: existsSync(resolve(cwd, values.root ?? '.', 'package.json'))
      ? posix.join(prefix, 'package.json')
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
    const inFile = { ...options, color: false, width: Infinity };
    if (file === undefined) await convert(report, format, streamSink(io.stdout, 'standard output'), options);
    else await writeWhole(resolve(io.cwd, file), file, (sink) => convert(report, format, sink, inFile));
  }
}

/** Yields warnings about SARIF that GitHub rejects or that closes alerts. */
function* sarifNotes({ summary, selection }: ReportHeader, options: ConvertOptions): Generator<string> {
  const { totalIssues } = summary;
  const { compared, resultsMax = totalIssues } = options;
  if (resultsMax < totalIssues) yield `${resultsMax} of ${totalIssues} results are written to SARIF (--max-results)`;
  if (Math.min(resultsMax, totalIssues) > SARIF_RESULTS_MAX)
    yield `more results than the ${SARIF_RESULTS_MAX} that GitHub accepts: it will refuse the file; see --max-results`;
  if (selection.baseline !== undefined && compared === undefined)
    yield 'this SARIF lists only what is new: GitHub closes the alerts that are not in it';
}
