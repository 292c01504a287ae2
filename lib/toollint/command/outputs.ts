// The outputs of a run: standard output, `-o`, and files (`--format sarif=out.sarif`). They are checked before the
// work starts and written after it.
import { existsSync, statSync } from 'node:fs';
import { posix, resolve } from 'node:path';
import { convert, type Format, FORMATS, isFormat } from '../convert/convert.ts';
import type { ConvertOptions, Stated } from '../convert/converter.ts';
import { linkOf } from '../convert/plain-text.ts';
import { SARIF_RESULTS_MAX } from '../convert/to-sarif.ts';
import { throwIfInterrupted, usageFailure } from '../document/failure.ts';
import { checkWritable, writeWhole } from '../document/output-file.ts';
import type { Report } from '../document/report-schema.ts';
import type { BaselineValues, OUTPUT_OPTIONS, Values } from './options.ts';
import { note, type ProgramIo, streamSink } from './program-io.ts';

type OutputValues = Values<typeof OUTPUT_OPTIONS> & Partial<Pick<BaselineValues, 'root' | 'path-prefix'>>;
export type OutputPlan = Awaited<ReturnType<typeof planOutput>>;

/** Throws ReportFailure for an unknown format, two documents in one place, or a place that is also an input. */
export async function planOutput(values: OutputValues, io: ProgramIo, inputs: readonly (string | undefined)[]) {
  const { output, format = [], to = [] } = values;
  const entries = [...format, ...to].map(targetOf);
  const mains = entries.filter(({ file }) => file === undefined);
  if (mains.length > 1)
    throw usageFailure('two formats for one output: name a file for each, as in --format sarif=out.sarif');
  const isShown = entries.length === 0 && output === undefined && io.stdout.isTTY === true;
  if (mains.length === 0 && (output !== undefined || entries.length === 0))
    entries.unshift({ format: isShown ? 'pretty' : 'report', file: undefined });
  // Without a file, the document goes to standard output.
  const targets = entries.map((target) => ({ ...target, file: target.file ?? output }));
  const outputs = new Map<string, string>();
  const check = (path: string, isOutput = false): string => {
    const { id, isFile } = placeOf(path);
    const file = isFile || isOutput ? outputs.get(id) : undefined;
    if (file !== undefined) throw usageFailure(`${file} is read or written already; choose another output`);
    return id;
  };
  for (const { file } of targets) {
    if (file === undefined) continue;
    if (file === '' || file === '-')
      throw usageFailure(`'${file}' is not the name of an output: standard output needs no name`);
    outputs.set(check(resolve(io.cwd, file), true), file);
    await checkWritable(resolve(io.cwd, file), file);
  }
  /** Throws ReportFailure if an output would replace one of these files. */
  const checkRead = (paths: readonly string[]): void => paths.forEach((path) => void check(path));
  checkRead(inputs.flatMap((name) => (name === undefined ? [] : name === '-' ? '/dev/stdin' : resolve(io.cwd, name))));
  return { targets, options: convertOptions(values, io), checkRead };
}

/** Identifies a file by its inode, because links can lead to it, or by its path if it does not exist yet. */
function placeOf(path: string): { id: string; isFile: boolean } {
  try {
    const status = statSync(path, { bigint: true });
    return { id: `${status.dev}:${status.ino}`, isFile: status.isFile() };
  } catch {
    return { id: path, isFile: true };
  }
}

function targetOf(text: string): { format: Format; file: string | undefined } {
  const [, format = '', file] = /^([^=]*)(?:=(.*))?$/su.exec(text) ?? [];
  if (!isFormat(format)) throw usageFailure(`unknown format '${format}': known are ${FORMATS.join(', ')}`);
  return { format, file };
}

function convertOptions(values: OutputValues, { env, cwd, stdout }: ProgramIo): ConvertOptions {
  const { color = 'auto', root = '.', 'path-prefix': prefix = '', 'max-results': results } = values;
  if (!['auto', 'always', 'never'].includes(color))
    throw usageFailure(`--color is auto, always or never, not '${color}'`);
  if (results !== undefined && !/^[0-9]+$/u.test(results))
    throw usageFailure(`--max-results needs a number, not '${results}'`);
  const isPlain = stdout.isTTY !== true || Boolean(env['NO_COLOR']) || env['TERM'] === 'dumb';
  return {
    color: color === 'always' || (color === 'auto' && !isPlain),
    // A terminal of unknown width reports 0.
    width: stdout.isTTY === true ? stdout.columns || 80 : Infinity,
    resultsMax: results === undefined ? undefined : Number(results),
    links: linksFor(values['source-url'], env),
    projectFile: existsSync(resolve(cwd, root, 'package.json')) ? posix.join(prefix, 'package.json') : undefined,
  };
}

/** Returns a URL that ends with exactly one slash, because paths are appended. In a GitHub job, it is known. */
function linksFor(text: string | undefined, env: ProgramIo['env']): string | undefined {
  const { GITHUB_SERVER_URL: server, GITHUB_REPOSITORY: repository, GITHUB_SHA: commit } = env;
  const isJob = server !== undefined && repository !== undefined && commit !== undefined;
  if (text === undefined) return isJob ? `${server}/${repository}/blob/${commit}/` : undefined;
  const url = linkOf(text);
  if (url === undefined) throw usageFailure(`--source-url needs an http or https address, not '${text}'`);
  return url.replace(/\/*$/u, '/');
}

/** All findings of a comparison, for the formats that show the state of each. */
export type ComparedReport = { readonly report: Report; readonly compared: readonly Stated[] };

export async function writeOutput(plan: OutputPlan, report: Report, io: ProgramIo, whole?: ComparedReport) {
  throwIfInterrupted(io.signal);
  for (const { format, file } of plan.targets) {
    const own = format === 'sarif' || format === 'html' ? whole : undefined;
    const shown = own?.report ?? report;
    const options = { ...plan.options, ...(own && { compared: own.compared }) };
    if (format === 'sarif') {
      const { length } = shown.findings;
      const { resultsMax = length } = options;
      if (resultsMax < length) note(io, `${resultsMax} of ${length} results are written to SARIF (--max-results)`);
      if (Math.min(resultsMax, length) > SARIF_RESULTS_MAX)
        note(io, `GitHub refuses a file with more than ${SARIF_RESULTS_MAX} results: see --max-results and --quiet`);
      if (report.selection.baseline !== undefined && own === undefined)
        note(io, 'this SARIF lists only what is new: GitHub closes the alerts that are not in it');
    }
    const inFile = { ...options, color: false, width: Infinity };
    if (file === undefined) await convert(shown, format, streamSink(io.stdout, 'standard output', io.signal), options);
    else await writeWhole(resolve(io.cwd, file), file, (sink) => convert(shown, format, sink, inFile), io.signal);
  }
}
