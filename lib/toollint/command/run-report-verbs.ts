// `toollint compare`, `gate`, `convert`, `merge` and `schema`: the verbs that only read documents.
import { usageFailure } from '../document/failure.ts';
import type { DocumentSource } from '../document/document-source.ts';
import { mergeReports } from '../document/merge-reports.ts';
import { openReport } from '../document/read-report.ts';
import { reportJsonSchema, type Report } from '../document/report-schema.ts';
import { gate as evaluate } from '../gate/gate.ts';
import { BUILT_IN_GATES } from '../gate/gate-config.ts';
import {
  checkInputs,
  exactly,
  gateFrom,
  inputSource,
  OUTPUT_OPTIONS,
  parseCommand,
  VERDICT_OPTIONS,
} from './command-options.ts';
import { planOutput, verdictOf, writeOutput } from './command-output.ts';
import { compare } from './compare.ts';
import { EXIT_OK } from './exit-code.ts';
import { changesSinceBaseline } from './baseline-options.ts';
import { note, type ProgramIo, streamSink } from './program-io.ts';

export const COMPARE_OPTIONS = {
  quiet: { type: 'boolean' },
  renames: { type: 'string' },
  ...VERDICT_OPTIONS,
} as const;
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
  const { values, positionals } = parseCommand(args, OUTPUT_OPTIONS);
  const [path = ''] = exactly(1, positionals, 'toollint convert REPORT --to FORMAT');
  if (values.to === undefined && values.format === undefined)
    throw usageFailure('usage: toollint convert REPORT --to FORMAT');
  const plan = await planOutput(values, io);
  await writeOutput(plan, openReport(await inputSource(path, io)), io);
  return EXIT_OK;
}

export async function runMerge(args: readonly string[], io: ProgramIo): Promise<number> {
  const { values, positionals } = parseCommand(args, OUTPUT_OPTIONS);
  const reports = await readEach(positionals, io, 'usage: toollint merge REPORT...', openReport);
  const plan = await planOutput(values, io);
  await writeOutput(plan, mergeReports(reports), io);
  return EXIT_OK;
}

export async function readEach(
  paths: readonly string[],
  io: ProgramIo,
  usage: string,
  read: (source: DocumentSource) => Report,
): Promise<{ name: string; report: Report }[]> {
  if (paths.length === 0) throw usageFailure(usage);
  checkInputs(paths);
  const reports: { name: string; report: Report }[] = [];
  for (const path of paths) {
    const source = await inputSource(path, io);
    reports.push({ name: source.name, report: read(source) });
  }
  return reports;
}

export async function runGate(args: readonly string[], io: ProgramIo): Promise<number> {
  const { values, positionals } = parseCommand(args, VERDICT_OPTIONS);
  const [path = ''] = exactly(1, positionals, 'toollint gate REPORT');
  const config = (await gateFrom(values, io)) ?? BUILT_IN_GATES[0];
  const plan = await planOutput(values, io);
  const outcome = evaluate(openReport(await inputSource(path, io)), config);
  for (const text of outcome.notes) note(io, text);
  await writeOutput(plan, outcome.report, io);
  return verdictOf(plan, values, outcome, io);
}

export async function runCompare(args: readonly string[], io: ProgramIo): Promise<number> {
  const { values, positionals } = parseCommand(args, COMPARE_OPTIONS);
  const [basePath = '', currentPath = ''] = exactly(2, positionals, 'toollint compare BASE CURRENT');
  const gate = await gateFrom(values, io);
  const plan = await planOutput(values, io, [basePath]);
  const base = await inputSource(basePath, io);
  const outcome = await compare(base, await inputSource(currentPath, io), {
    quiet: values.quiet === true,
    gate,
    changes: await changesSinceBaseline(base, values.renames, { root: io.cwd }),
  });
  const { report, comparison, current } = outcome;
  for (const text of outcome.notes) note(io, text);
  const targets = Map.groupBy(plan.targets, ({ format }) => format === 'sarif' || format === 'html');
  await writeOutput({ ...plan, targets: targets.get(false) ?? [] }, report, io);
  const news = new Set(comparison.news);
  await writeOutput({ ...plan, targets: targets.get(true) ?? [] }, current, io, {
    baselineState: (finding) => (news.has(finding) ? 'new' : 'unchanged'),
    absent: comparison.fixed.map(({ finding }) => finding),
  });
  return verdictOf(plan, values, outcome, io);
}
