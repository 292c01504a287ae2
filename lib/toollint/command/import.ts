import { join, resolve } from 'node:path';
import { importReports } from '../convert/import.ts';
import type { DocumentSource } from '../document/document-source.ts';
import { pathPrefix } from '../document/report-path.ts';
import { mayExist } from '../document/source-file.ts';
import { checkGateNeeds } from '../gate/gate.ts';
import { baselineInput } from './baseline-input.ts';
import { judge } from './judge.ts';
import * as options from './options.ts';
import { planOutput } from './outputs.ts';
import type { ProgramIo } from './program-io.ts';
import { finish } from './verdict.ts';

const { text, flag, BASELINE_OPTIONS } = options;
export const IMPORT_OPTIONS = { from: text, tool: text, 'accept-failed-run': flag, ...BASELINE_OPTIONS } as const;

export async function runImport(args: readonly string[], io: ProgramIo): Promise<number> {
  const { values, positionals } = options.parseCommand(args, IMPORT_OPTIONS);
  const usage = 'toollint import --from sarif FILE...';
  const inputs = options.inputsOf(values.from === 'sarif' ? positionals : [], usage);
  options.checkBaselineOptions(values);
  const gate = options.gateFrom(values);
  checkGateNeeds(gate, values.baseline !== undefined);
  const { baseline, timestamp, tool, quiet = false } = values;
  const scope = { root: resolve(io.cwd, values.root ?? '.'), pathPrefix: values['path-prefix'] ?? '' };
  options.checkStandardInput([...inputs, baseline]);
  const plan = await planOutput(values, io, [...inputs, baseline]);
  const sources: DocumentSource[] = [];
  for (const path of inputs) sources.push(await options.inputSource(path, io));
  const acceptFailedRun = values['accept-failed-run'] === true;
  const { signal } = io;
  const reading = { timestamp, tool, acceptFailedRun, signal };
  const { report, notes } = await importReports(sources, { ...scope, ...reading });
  const prefix = pathPrefix(scope.pathPrefix);
  const exists = (path: string) => mayExist(join(scope.root, prefix.strip(path) ?? '..'));
  const evidence = { notes, exists, isChecked: () => true };
  const judged = await judge(report, evidence, { quiet, gate, signal, ...(await baselineInput(values, scope, io)) });
  // Without a baseline or a gate, this is a conversion, so findings do not make it fail.
  const isConversion = gate === undefined && baseline === undefined;
  return finish(plan, isConversion ? { ...values, 'never-fail': true } : values, judged, io);
}
