// `toollint import` judges another linter's SARIF like a scan.
import { join, resolve } from 'node:path';
import { importReports } from '../convert/import.ts';
import type { DocumentSource } from '../document/document-source.ts';
import { pathPrefix } from '../document/report-path.ts';
import { mayExist } from '../document/source-file.ts';
import { checkGateNeeds } from '../gate/gate.ts';
import { baselineInput } from './baseline-input.ts';
import { judge } from './judge.ts';
import {
  BASELINE_OPTIONS,
  checkBaselineOptions,
  gateFrom,
  inputsOf,
  inputSource,
  parseCommand,
  text,
} from './options.ts';
import { planOutput } from './outputs.ts';
import type { ProgramIo } from './program-io.ts';
import { finish } from './verdict.ts';

export const IMPORT_OPTIONS = { from: text, tool: text, ...BASELINE_OPTIONS } as const;

export async function runImport(args: readonly string[], io: ProgramIo): Promise<number> {
  const { values, positionals } = parseCommand(args, IMPORT_OPTIONS);
  const inputs = inputsOf(values.from === 'sarif' ? positionals : [], 'toollint import --from sarif FILE...');
  checkBaselineOptions(values);
  const gate = gateFrom(values);
  checkGateNeeds(gate, values.baseline !== undefined);
  const root = resolve(io.cwd, values.root ?? '.');
  const { 'path-prefix': prefixText = '', timestamp, tool } = values;
  const plan = await planOutput(values, io, [values.baseline ?? []].flat());
  const sources: DocumentSource[] = [];
  for (const path of inputs) sources.push(await inputSource(path, io));
  const { report, notes } = importReports(sources, { root, pathPrefix: prefixText, timestamp, tool });
  const prefix = pathPrefix(prefixText);
  const exists = (path: string) => mayExist(join(root, prefix.strip(path) ?? '..'));
  const judged = await judge(
    report,
    { notes, exists, isChecked: () => true },
    { quiet: values.quiet === true, gate, ...(await baselineInput(values, { root, pathPrefix: prefixText }, io)) },
  );
  // Without a baseline or a gate, this is a conversion, so findings do not make it fail.
  const isConversion = gate === undefined && values.baseline === undefined;
  return finish(plan, isConversion ? { ...values, 'never-fail': true } : values, judged, io);
}
