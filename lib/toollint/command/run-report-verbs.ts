// `toollint compare`, `gate`, `convert` and `schema`: the verbs that work on reports alone.
import {
  exactly,
  exitFlags,
  GATE_OPTIONS,
  gateFrom,
  inputBytesMax,
  INPUT_OPTIONS,
  inputSource,
  OUTPUT_OPTIONS,
  parseCommand,
  VERDICT_OPTIONS,
} from './command-options.ts';
import { planOutput, tellVerdict, writeOutput } from './command-output.ts';
import { compare } from '../compare/compare.ts';
import { EXIT_OK, reportExitCode } from './exit-code.ts';
import { ReportFailure } from '../document/failure.ts';
import { gate as evaluate } from '../gate/gate-report.ts';
import { chosenGate } from '../gate/gate-config.ts';
import { note, type ProgramIo, streamSink } from './program-io.ts';
import { readRenames } from './renames.ts';
import { reportJsonSchema } from '../document/report-schema.ts';
import { openReport } from '../document/report-source.ts';

/** Options of the verbs, for parseArgs. */
export const COMPARE_OPTIONS = {
  quiet: { type: 'boolean' },
  renames: { type: 'string' },
  lenient: { type: 'boolean' },
  ...INPUT_OPTIONS,
  ...OUTPUT_OPTIONS,
  ...GATE_OPTIONS,
  ...VERDICT_OPTIONS,
} as const;
export const GATE_VERB_OPTIONS = { ...INPUT_OPTIONS, ...OUTPUT_OPTIONS, ...GATE_OPTIONS, ...VERDICT_OPTIONS } as const;
export const CONVERT_OPTIONS = { ...INPUT_OPTIONS, ...OUTPUT_OPTIONS } as const;

/** The JSON Schema as it is printed and committed. */
export function schemaText(): string {
  return `${JSON.stringify(reportJsonSchema(), null, 2)}\n`;
}

export async function runSchema(args: readonly string[], io: ProgramIo): Promise<number> {
  const { positionals } = parseCommand(args, {});
  exactly(0, positionals, 'toollint schema');
  await streamSink(io.stdout, 'standard output')(schemaText());
  return EXIT_OK;
}

export async function runConvert(args: readonly string[], io: ProgramIo): Promise<number> {
  const { values, positionals } = parseCommand(args, CONVERT_OPTIONS);
  const [path = ''] = exactly(1, positionals, 'toollint convert REPORT --to FORMAT');
  if (values.to === undefined && values.format === undefined)
    throw new ReportFailure('usage', 'usage: toollint convert REPORT --to FORMAT');
  const plan = await planOutput(values, io);
  const source = await inputSource(path, io, inputBytesMax(values));
  try {
    await writeOutput(plan, await openReport(source, { consistency: false, signal: io.signal }), io);
    return EXIT_OK;
  } finally {
    await source.close();
  }
}

export async function runGate(args: readonly string[], io: ProgramIo): Promise<number> {
  const { values, positionals } = parseCommand(args, GATE_VERB_OPTIONS);
  const [path = ''] = exactly(1, positionals, 'toollint gate REPORT');
  const config = (await gateFrom(values, io)) ?? chosenGate({ name: 'default' });
  if (config === undefined) throw new ReportFailure('gate', 'there is no gate to evaluate');
  const plan = await planOutput(values, io);
  const source = await inputSource(path, io, inputBytesMax(values));
  try {
    const { report, errors } = await evaluate(await openReport(source, { signal: io.signal }), config);
    await writeOutput(plan, report, io);
    const code = reportExitCode(report.header, errors, exitFlags(values));
    tellVerdict(plan, values, { header: report.header, errors, code }, io);
    return code;
  } finally {
    await source.close();
  }
}

export async function runCompare(args: readonly string[], io: ProgramIo): Promise<number> {
  const { values, positionals } = parseCommand(args, COMPARE_OPTIONS);
  const [basePath = '', currentPath = ''] = exactly(2, positionals, 'toollint compare BASE CURRENT');
  const gate = await gateFrom(values, io);
  const plan = await planOutput(values, io, [basePath]);
  const base = await inputSource(basePath, io, inputBytesMax(values));
  try {
    const currentSource = await inputSource(currentPath, io, inputBytesMax(values));
    try {
      const renames = values.renames === undefined ? undefined : await readRenames(values.renames, io.cwd, io.cwd);
      const lenient = values.lenient === true;
      const outcome = await compare(base, currentSource, {
        quiet: values.quiet === true,
        gate,
        renames,
        lenient,
        signal: io.signal,
      });
      for (const text of outcome.notes) note(io, text);
      const sarif = { ...plan, targets: plan.targets.filter(({ format }) => format === 'sarif') };
      const others = { ...plan, targets: plan.targets.filter(({ format }) => format !== 'sarif') };
      await writeOutput(others, outcome.report, io);
      await writeOutput(sarif, outcome.current, io, {
        baselineState: (index) => (outcome.isNew(index) ? 'new' : 'unchanged'),
      });
      const {
        errors,
        report: { header },
      } = outcome;
      const code = reportExitCode(header, errors, exitFlags(values));
      tellVerdict(plan, values, { header, errors, code }, io);
      return code;
    } finally {
      await currentSource.close();
    }
  } finally {
    await base.close();
  }
}
