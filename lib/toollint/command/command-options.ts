// Options that several verbs share. Invalid values are refused, because a limit that silently became 0 or infinite
// would make builds fail or pass.
import { parseArgs, type ParseArgsConfig } from 'node:util';
import { resolve } from 'node:path';
import { type DocumentSource, fileSource, streamSource, textIn } from '../document/document-source.ts';
import { messageOf, ReportFailure, usageFailure } from '../document/failure.ts';
import { chosenGate, type GateConfig } from '../gate/gate-config.ts';
import type { ProgramIo } from './program-io.ts';

export const OUTPUT_OPTIONS = {
  format: { type: 'string', multiple: true },
  to: { type: 'string', multiple: true },
  output: { type: 'string', short: 'o' },
  color: { type: 'string' },
  'max-results': { type: 'string' },
  'source-url': { type: 'string' },
} as const;

export const VERDICT_OPTIONS = {
  ...OUTPUT_OPTIONS,
  silent: { type: 'boolean' },
  gate: { type: 'string' },
  'gate-config': { type: 'string' },
  'max-errors': { type: 'string' },
  'max-warnings': { type: 'string' },
  'max-infos': { type: 'string' },
  'max-new': { type: 'string' },
  'exit-zero': { type: 'boolean' },
  'allow-no-files': { type: 'boolean' },
  'fail-on-warning': { type: 'boolean' },
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

export async function gateFrom(values: Values<typeof VERDICT_OPTIONS>, io: ProgramIo): Promise<GateConfig | undefined> {
  const file = values['gate-config'];
  const config = file === undefined ? undefined : { file, text: textIn(await fileSource(resolve(io.cwd, file), file)) };
  const limits: Record<string, number> = {};
  const names = { 'max-errors': 'errors', 'max-warnings': 'warnings', 'max-infos': 'infos', 'max-new': 'newIssues' };
  for (const [option, metric] of Object.entries(names)) {
    const text = values[option as keyof typeof names];
    if (text !== undefined) limits[metric] = countOption(`--${option}`, text);
  }
  return chosenGate({ name: values.gate, config, limits });
}

export function countOption(name: string, text: string): number {
  const value = Number(text);
  if (!/^[0-9]+$/u.test(text) || !Number.isSafeInteger(value)) {
    throw usageFailure(`${name} needs an integer of 0 or more, not '${text}'`);
  }
  return value;
}

export function checkTimestamp(timestamp: string | undefined): void {
  if (timestamp === undefined) return;
  if (!/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}/u.test(timestamp) || Number.isNaN(Date.parse(timestamp)))
    throw usageFailure(`--timestamp needs a time such as 2026-01-31T12:00:00Z, not '${timestamp}'`);
}

/** The path `-` stands for standard input. */
export async function inputSource(path: string, io: ProgramIo): Promise<DocumentSource> {
  if (path === '-') return streamSource(io.stdin, 'standard input', { signal: io.signal });
  return fileSource(resolve(io.cwd, path), path);
}

export function exactly(count: number, positionals: readonly string[], usage: string): string[] {
  if (positionals.length !== count) throw usageFailure(`usage: ${usage}`);
  checkInputs(positionals);
  return [...positionals];
}

/** Standard input can be read only once. */
export function checkInputs(paths: readonly string[]): void {
  if (paths.filter((path) => path === '-').length > 1) throw usageFailure("only one input can be '-'");
}
