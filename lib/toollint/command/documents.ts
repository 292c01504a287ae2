// `toollint validate`, `convert`, `merge` and `schema`: the verbs that only read documents.
import { isBaselineFile, readBaselineFile } from '../compare/baseline.ts';
import { terminalText } from '../convert/plain-text.ts';
import type { DocumentSource } from '../document/document-source.ts';
import { ReportFailure, usageFailure } from '../document/failure.ts';
import { mergeReports, type NamedReport } from '../document/merge-reports.ts';
import { jsonText } from '../document/output-file.ts';
import { type Inspection, inspectReport, openReport } from '../document/read-report.ts';
import { reportJsonSchema } from '../document/report-schema.ts';
import { inputsOf, inputSource, OUTPUT_OPTIONS, parseCommand, text } from './options.ts';
import { planOutput, writeOutput } from './outputs.ts';
import { note, type ProgramIo, streamSink } from './program-io.ts';
import { EXIT_FAILURE, EXIT_FINDINGS, EXIT_OK } from './verdict.ts';

export const VALIDATE_OPTIONS = { format: text } as const;

export async function runSchema(args: readonly string[], io: ProgramIo): Promise<number> {
  inputsOf(parseCommand(args, {}).positionals, 'toollint schema', 0, 0);
  await streamSink(io.stdout, 'standard output')(`${JSON.stringify(reportJsonSchema(), null, 2)}\n`);
  return EXIT_OK;
}

export async function runConvert(args: readonly string[], io: ProgramIo): Promise<number> {
  const { values, positionals } = parseCommand(args, OUTPUT_OPTIONS);
  const isAsked = values.to !== undefined || values.format !== undefined;
  const [path = ''] = inputsOf(isAsked ? positionals : [], 'toollint convert REPORT --to FORMAT', 1, 1);
  const plan = await planOutput(values, io, [path]);
  await writeOutput(plan, openReport(await inputSource(path, io)), io);
  return EXIT_OK;
}

export async function runMerge(args: readonly string[], io: ProgramIo): Promise<number> {
  const { values, positionals } = parseCommand(args, OUTPUT_OPTIONS);
  const inputs = inputsOf(positionals, 'toollint merge REPORT...');
  const plan = await planOutput(values, io, inputs);
  const reports: NamedReport[] = [];
  // One input at a time, so that only one text is in memory.
  for (const path of inputs) {
    const source = await inputSource(path, io);
    reports.push({ name: source.name, report: openReport(source) });
  }
  await writeOutput(plan, mergeReports(reports), io);
  return EXIT_OK;
}

/** A baseline file has no schema; each of its lines is valid or not. */
async function inspectBaseline(source: DocumentSource): Promise<Omit<Inspection, 'report'>> {
  const [valid, notChecked] = ['valid', 'not-checked'] as const;
  const about = { sawByteOrderMark: false, consistency: notChecked };
  try {
    await readBaselineFile(source);
    return { ...about, schema: valid, problems: [], problemCount: 0 };
  } catch (cause) {
    if (!(cause instanceof ReportFailure)) throw cause;
    const problem = { level: 'schema', code: 'baseline', pointer: '', message: cause.message } as const;
    return { ...about, schema: 'invalid', problems: [problem], problemCount: 1 };
  }
}

type FileVerdict = Omit<Inspection, 'sawByteOrderMark' | 'report'> & { readonly file: string; readonly valid: boolean };

export async function runValidate(args: readonly string[], io: ProgramIo): Promise<number> {
  const { values, positionals } = parseCommand(args, VALIDATE_OPTIONS);
  const { format = 'text' } = values;
  if (format !== 'text' && format !== 'json') throw usageFailure(`--format is text or json, not '${format}'`);
  const files: FileVerdict[] = [];
  let unreadable = false;
  for (const file of inputsOf(positionals, 'toollint validate FILE|- ...')) {
    try {
      const source = await inputSource(file, io);
      const { sawByteOrderMark, schema, consistency, problems, problemCount } = isBaselineFile(source)
        ? await inspectBaseline(source)
        : inspectReport(source);
      if (sawByteOrderMark) note(io, `${file} begins with a byte order mark`);
      files.push({ file, valid: problemCount === 0, schema, consistency, problemCount, problems });
    } catch (cause) {
      if (!(cause instanceof ReportFailure)) throw cause;
      note(io, cause.message);
      unreadable = true;
    }
  }
  const valid = files.every((verdict) => verdict.valid);
  const json = `${jsonText({ valid: valid && !unreadable, files }, 2)}\n`;
  await streamSink(io.stdout, 'standard output')(format === 'json' ? json : files.map(textOf).join(''));
  return unreadable ? EXIT_FAILURE : valid ? EXIT_OK : EXIT_FINDINGS;
}

function textOf({ file, schema, consistency, problemCount, problems }: FileVerdict): string {
  const lines = problems.map(({ level, code, pointer, message }) => {
    const where = terminalText(pointer) || '(document)';
    return `  ${where}: ${terminalText(message)} [${level === code ? code : `${level} ${code}`}]\n`;
  });
  const more = problemCount > problems.length ? `  …and ${problemCount - problems.length} more\n` : '';
  const verdict = `schema ${schema}, consistency ${consistency.replace('-', ' ')}`;
  return `${terminalText(file)}: ${verdict}\n${lines.join('')}${more}`;
}
