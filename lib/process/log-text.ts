// Log lines for people on a terminal: time, level, name, message, then the other fields; an error's stack below.
//
// Fact: pino writes one JSON line for each call. Choice: those lines are parsed and printed again here, which costs
// time that a terminal can spare. pino-pretty would do the same with thirteen packages behind it, in what every
// operator installs.
import { styleText } from 'node:util';
import { printable, printableLines } from './printable.ts';

/** Of pino's own members only these are shown in a place of their own; `pid` is left out. */
interface LogLine {
  readonly time?: string;
  readonly level?: string;
  readonly name?: string;
  readonly msg?: string;
  readonly pid?: number;
  readonly err?: { readonly message?: string; readonly stack?: string };
}

const STYLES = { debug: 'gray', warn: 'yellow', error: 'red', fatal: 'red' } as const;

/**
 * One JSON line of pino as text, with its line end. What is no JSON stays as it is. `colors`: the level is coloured.
 */
export function textLine(json: string, colors: boolean): string {
  let line: LogLine;
  try {
    line = JSON.parse(json) as LogLine;
  } catch {
    return printableLines(json);
  }
  const { time, level = 'info', name, msg, pid: _, err, ...fields } = line;
  const style = colors ? STYLES[level as keyof typeof STYLES] : undefined;
  const label = level.toUpperCase().padEnd(5);
  const shown = style === undefined ? label : styleText(style, label, { validateStream: false });
  const parts = [name, msg];
  for (const [key, value] of Object.entries(fields)) parts.push(`${key}=${fieldText(value)}`);
  const text = `${time === undefined ? '' : `${time} `}${shown} ${printable(parts.filter(Boolean).join(' '))}`;
  const stack = err?.stack ?? err?.message;
  return stack === undefined ? `${text}\n` : `${text}\n    ${printableLines(stack).replaceAll('\n', '\n    ')}\n`;
}

/** Bare where it cannot be misread, else as JSON: a field never breaks a line. */
const fieldText = (value: unknown): string =>
  typeof value === 'string' && /^[^\s"=\p{Cc}]+$/u.test(value) ? value : JSON.stringify(value);
