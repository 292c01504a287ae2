import { resolve } from 'node:path';
import { parseArgs, type ParseArgsConfig } from 'node:util';
import { isDay } from '../compare/baseline.ts';
import { type DocumentSource, fileSource, streamSource } from '../document/document-source.ts';
import { messageOf, ReportFailure, usageFailure } from '../document/failure.ts';
import { chosenGate, type GateConfig } from '../gate/gate.ts';
import type { ProgramIo } from './program-io.ts';

export const text = { type: 'string' } as const;
export const texts = { type: 'string', multiple: true } as const;
export const flag = { type: 'boolean' } as const;

const PLACES = { format: texts, to: texts, output: { type: 'string', short: 'o' } } as const;
export const OUTPUT_OPTIONS = { ...PLACES, color: text, 'max-results': text, 'source-url': text } as const;

const LIMITS = { 'max-errors': 'errors', 'max-warnings': 'warnings', 'max-infos': 'infos', 'max-new': 'newIssues' };
export const VERDICT_OPTIONS = {
  ...OUTPUT_OPTIONS,
  ...{ gate: text, 'max-errors': text, 'max-warnings': text, 'max-infos': text, 'max-new': text, quiet: flag },
  ...{ 'exit-zero': flag, 'allow-no-files': flag, 'fail-on-warning': flag, silent: flag, renames: text },
} as const;

export const BASELINE_OPTIONS = {
  ...VERDICT_OPTIONS,
  ...{ root: text, timestamp: text, 'path-prefix': text, baseline: text },
  ...{ 'update-baseline': flag, accept: texts, reason: text, until: text },
} as const;

type OptionTable = NonNullable<ParseArgsConfig['options']>;

export function parseCommand<T extends OptionTable>(args: readonly string[], options: T) {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true, strict: true });
  } catch (cause) {
    throw new ReportFailure('usage', messageOf(cause), cause);
  }
}

export type Values<T extends OptionTable> = ReturnType<typeof parseCommand<T>>['values'];
export type BaselineValues = Values<typeof BASELINE_OPTIONS>;

export function gateFrom(values: Values<typeof VERDICT_OPTIONS>): GateConfig | undefined {
  const limits = Object.entries(LIMITS).flatMap(([option, metric]) => {
    const text = values[option as keyof typeof LIMITS];
    return text === undefined ? [] : [[metric, /^[0-9]+$/u.test(text) ? Number(text) : NaN]];
  });
  return chosenGate({ name: values.gate, limits: Object.fromEntries(limits) as Record<string, number> });
}

export function checkBaselineOptions(values: BaselineValues): void {
  const { baseline, accept, reason, until, renames, timestamp } = values;
  const updates = values['update-baseline'] === true;
  const isTime = (text: string) => /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}/u.test(text) && !Number.isNaN(Date.parse(text));
  const today = (timestamp ?? new Date().toISOString()).slice(0, 10);
  const faults: Record<string, boolean> = {
    '--timestamp needs a time such as 2026-01-31T12:00:00Z': timestamp !== undefined && !isTime(timestamp),
    '--renames needs --baseline': renames !== undefined && baseline === undefined,
    '--update-baseline needs --baseline FILE': updates && (baseline ?? '-') === '-',
    '--accept needs --update-baseline': accept !== undefined && !updates,
    '--accept needs --reason': accept !== undefined && (reason ?? '').trim() === '',
    '--reason and --until need --accept': accept === undefined && (reason ?? until) !== undefined,
    [`--until needs a day such as 2026-12-31, not '${until}'`]: until !== undefined && !isDay(until),
    [`--until ${until} is in the past`]: until !== undefined && until < today,
  };
  const message = Object.keys(faults).find((text) => faults[text]);
  if (message !== undefined) throw usageFailure(message);
}

export async function inputSource(path: string, io: ProgramIo): Promise<DocumentSource> {
  if (path !== '-') return fileSource(resolve(io.cwd, path), path, io);
  return streamSource(io.stdin, 'standard input', io);
}

/** Throws ReportFailure for another number of inputs. */
export function inputsOf(positionals: readonly string[], usage: string, least = 1, most = Infinity): string[] {
  if (positionals.length < least || positionals.length > most) throw usageFailure(`usage: ${usage}`);
  checkStandardInput(positionals);
  return [...positionals];
}

/** Throws ReportFailure if two inputs are standard input, which can be read only once. */
export function checkStandardInput(inputs: readonly (string | undefined)[]): void {
  if (inputs.filter((path) => path === '-').length > 1) throw usageFailure("only one input can be '-'");
}
