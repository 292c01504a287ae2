// `toollint import` judges another linter's SARIF like a scan.
import { join, resolve } from 'node:path';
import { importReports } from '../convert/import.ts';
import type { DocumentSource } from '../document/document-source.ts';
import { lintersOf } from '../document/extension.ts';
import { usageFailure } from '../document/failure.ts';
import { PathPrefix } from '../document/report-path.ts';
import { mayExist } from '../document/source-file.ts';
import { checkGateNeeds } from '../gate/gate.ts';
import { baselineInput, writeBaseline } from './baseline-input.ts';
import { judge } from './judge.ts';
import { BASELINE_OPTIONS, checkBaselineOptions, checkInputs, gateFrom, inputSource, parseCommand } from './options.ts';
import { planOutput, writeOutput } from './outputs.ts';
import { note, type ProgramIo } from './program-io.ts';
import { verdictOf } from './verdict.ts';

export const IMPORT_OPTIONS = {
  from: { type: 'string' },
  tool: { type: 'string' },
  ...BASELINE_OPTIONS,
} as const;

export async function runImport(args: readonly string[], io: ProgramIo): Promise<number> {
  const { values, positionals } = parseCommand(args, IMPORT_OPTIONS);
  if (values.from !== 'sarif' || positionals.length === 0)
    throw usageFailure('usage: toollint import --from sarif FILE...');
  checkBaselineOptions(values);
  checkInputs(positionals);
  const gate = gateFrom(values);
  checkGateNeeds(gate, values.baseline !== undefined);
  const root = resolve(io.cwd, values.root ?? '.');
  const pathPrefix = values['path-prefix'] ?? '';
  const plan = await planOutput(values, io, [values.baseline ?? []].flat());
  const sources: DocumentSource[] = [];
  for (const path of positionals) sources.push(await inputSource(path, io));
  const options = { root, pathPrefix, timestamp: values.timestamp, tool: values.tool };
  const { report, notes, suppressed } = importReports(sources, options);
  const { tool, findings, execution, summary, scan } = report;
  const [linter, ...others] = lintersOf({ tool });
  const reason = 'SARIF does not list the files and rules that were checked';
  const prefix = new PathPrefix(pathPrefix);
  const judged = await judge(
    {
      ...{ tool, findings, scan, notes, suppressed },
      linter: others.length === 0 ? linter : undefined,
      diagnostics: execution.diagnostics.filter(({ kind }) => kind !== 'no-files'),
      totalFiles: summary.totalFiles,
      exists: (path) => mayExist(join(root, prefix.strip(path) ?? '..')),
      doubtsOf: (missing) => Promise.resolve(new Map(missing.map((entry) => [entry, reason]))),
      isChecked: () => true,
    },
    { quiet: values.quiet === true, gate, ...(await baselineInput(values, { root, pathPrefix }, io)) },
  );
  for (const text of judged.notes) note(io, text);
  await writeOutput(plan, judged.report, io);
  await writeBaseline(values.baseline, judged, io);
  // Without a baseline or a gate, this is a conversion, so findings do not make it fail.
  const isConversion = gate === undefined && values.baseline === undefined;
  return verdictOf(plan, isConversion ? { ...values, 'never-fail': true } : values, judged, io);
}
