// `toollint import` judges another linter's SARIF like a scan.
import { join } from 'node:path';
import { importReport } from '../convert/import.ts';
import { lintersOf } from '../document/extension.ts';
import { usageFailure } from '../document/failure.ts';
import type { DocumentSource } from '../document/document-source.ts';
import { mergeReports } from '../document/merge-reports.ts';
import type { Report } from '../document/report-schema.ts';
import { mayExist } from '../document/source-file.ts';
import { checkGateNeeds } from '../gate/gate.ts';
import { BASELINE_OPTIONS, baselineOptions, checkBaselineFlags, writeBaseline } from './baseline-options.ts';
import { checkTimestamp, gateFrom, parseCommand, VERDICT_OPTIONS } from './command-options.ts';
import { planOutput, verdictOf, writeOutput } from './command-output.ts';
import { EXIT_OK } from './exit-code.ts';
import { type Found, judge } from './judge.ts';
import { note, type ProgramIo } from './program-io.ts';
import { readEach } from './run-report-verbs.ts';

export const IMPORT_OPTIONS = {
  from: { type: 'string' },
  root: { type: 'string' },
  timestamp: { type: 'string' },
  quiet: { type: 'boolean' },
  ...BASELINE_OPTIONS,
  ...VERDICT_OPTIONS,
} as const;

export async function runImport(args: readonly string[], io: ProgramIo): Promise<number> {
  const { values, positionals } = parseCommand(args, IMPORT_OPTIONS);
  const usage = 'usage: toollint import --from sarif FILE...';
  if (values.from !== 'sarif') throw usageFailure(usage);
  checkTimestamp(values.timestamp);
  checkBaselineFlags(values, values.timestamp);
  const gate = await gateFrom(values, io);
  checkGateNeeds(gate, values.baseline !== undefined);
  const root = values.root ?? io.cwd;
  const plan = await planOutput(values, io, [values.baseline ?? []].flat());
  const options = { root, cwd: io.cwd, timestamp: values.timestamp };
  const read = (source: DocumentSource) => importReport(source, options);
  const report = mergeReports(await readEach(positionals, io, usage, read));
  const judged = await judge(foundIn(report, root), {
    quiet: values.quiet === true,
    gate,
    ...(await baselineOptions(values, { root }, io)),
  });
  for (const text of judged.notes) note(io, text);
  await writeOutput(plan, judged.report, io);
  await writeBaseline(values.baseline, judged, io);
  // Without a baseline or a gate, this is a conversion, so findings do not make it fail.
  return gate === undefined && values.baseline === undefined ? EXIT_OK : verdictOf(plan, values, judged, io);
}

function foundIn({ tool, findings, execution, summary, scan }: Report, root: string): Found {
  const [linter = tool] = lintersOf({ tool });
  const reason = 'SARIF does not list the files and rules that were checked';
  return {
    ...{ tool, linter, findings, scan, notes: [] },
    diagnostics: execution.diagnostics,
    totalFiles: summary.totalFiles,
    exists: (path) => mayExist(join(root, path)),
    doubtsOf: (missing) => Promise.resolve(new Map(missing.map((entry) => [entry, reason]))),
  };
}
