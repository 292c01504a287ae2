import { resolve } from 'node:path';
import { type BaselineEntry, isNeverBaselined } from '../compare/baseline.ts';
import type { DoubtsOf } from '../compare/comparison.ts';
import { matchFindings } from '../compare/finding-match.ts';
import { usageFailure } from '../document/failure.ts';
import { isGlob } from '../document/file-pattern.ts';
import { ENGINE_RULE } from '../document/report-format.ts';
import { checkGateNeeds } from '../gate/gate.ts';
import { analyse, type Analysis } from '../scan/analyse.ts';
import type { AnalysisOptions } from '../scan/file-search.ts';
import { baselineInput } from './baseline-input.ts';
import { judge, type JudgeOptions, type Judgment } from './judge.ts';
import { BASELINE_OPTIONS, checkBaselineOptions, flag, gateFrom, parseCommand, texts, type Values } from './options.ts';
import { planOutput } from './outputs.ts';
import { type ProgramIo, progressLine } from './program-io.ts';
import { finish } from './verdict.ts';

const FILES = { config: { type: 'string', short: 'c' }, include: texts, exclude: texts, ext: texts } as const;
export const SCAN_OPTIONS = { ...FILES, deterministic: flag, ...BASELINE_OPTIONS } as const;

export type ScanOptions = AnalysisOptions & JudgeOptions;

export async function scan(options: ScanOptions): Promise<Judgment> {
  checkGateNeeds(options.gate, options.baseline !== undefined || options.update !== undefined);
  const result = await analyse(options);
  const { changes } = options;
  // In a sparse checkout, git has files that are not on disk.
  const isLeftOut = (path: string) =>
    typeof changes === 'object' && changes.tracked.has(path) && !changes.deleted.has(path) && !result.exists(path);
  const analysis: Analysis = {
    ...result,
    coverageOf: async (path) => (isLeftOut(path) ? undefined : result.coverageOf(path)),
    isChecked: (path) => !isLeftOut(path) && result.isChecked(path),
  };
  return judge(analysis.report, { ...analysis, doubtsOf: doubtsFrom(analysis) }, options);
}

/** A missing finding was fixed if nothing hides it and its rule ran to the end of the file, or would if it existed. */
function doubtsFrom({ coverageOf }: Analysis): DoubtsOf {
  return async (missing) => {
    const doubts = new Map<BaselineEntry, string>();
    for (const [path, entries] of Map.groupBy(missing, ({ finding }) => finding.location.path ?? '')) {
      const { ran, suppressed } = (await coverageOf(path)) ?? { suppressed: [] };
      const shown = new Set(matchFindings(entries, suppressed, undefined, true).missing);
      for (const entry of entries) {
        const { ruleId } = entry.finding;
        const isAlwaysOn = isNeverBaselined(entry.finding) || ruleId === ENGINE_RULE;
        if (ran === undefined) doubts.set(entry, 'the scan did not analyze the file to its end');
        else if (!shown.has(entry)) doubts.set(entry, 'a comment or eslint-suppressions.json hides it');
        else if (!ran.has(ruleId) && !(isAlwaysOn && ran.size > 0))
          doubts.set(entry, `the rule ${ruleId} did not run to the end of the file`);
      }
    }
    return (entry) => doubts.get(entry);
  };
}

export async function runScan(args: readonly string[], io: ProgramIo): Promise<number> {
  const { values, positionals } = parseCommand(args, SCAN_OPTIONS);
  const options = scanOptions(values, positionals, io);
  checkBaselineOptions(values);
  const gate = gateFrom(values);
  const plan = await planOutput(values, io, [values.config, values.baseline]);
  const baseline = await baselineInput(values, options, io);
  io.enterLinter?.(options.root);
  const progress = progressLine(io);
  const judging = scan({ ...options, ...baseline, gate, progress, checkRead: plan.checkRead });
  return finish(plan, values, await judging.finally(progress), io);
}

type ScanValues = Partial<Values<typeof SCAN_OPTIONS>>;

export function scanOptions(values: ScanValues, paths: readonly string[], { cwd, signal }: ProgramIo) {
  const { config } = values;
  return {
    ...{ root: resolve(cwd, values.root ?? '.'), cwd, paths, signal },
    include: (values.include ?? []).flatMap(withFolder),
    exclude: (values.exclude ?? []).flatMap(withFolder),
    extensions: (values.ext ?? []).flatMap(extensionsIn),
    config: config === undefined ? undefined : resolve(cwd, config),
    ...{ quiet: values.quiet === true, timestamp: values.timestamp, deterministic: values.deterministic === true },
    pathPrefix: values['path-prefix'] ?? '',
  };
}

/** A name without an extension may be a folder, so the pattern also covers the files in it. */
function withFolder(pattern: string): string[] {
  if (pattern === '') throw usageFailure('--include and --exclude need a pattern');
  const name = pattern.split('/').at(-1) ?? '';
  return isGlob(pattern) || name === '' || name.includes('.') ? [pattern] : [pattern, `${pattern}/**`];
}

function extensionsIn(list: string): string[] {
  const endings = list.split(',').map((ending) => ending.trim().replace(/^\./u, ''));
  if (endings.every((ending) => /^[A-Za-z0-9_.-]+$/u.test(ending))) return endings;
  throw usageFailure('--ext needs endings as in --ext js,ts');
}
