// The log: one line for each thing that an operator should know, on standard output, as JSON or as text for a terminal.
//
// What is never in it: event bodies, credentials, private keys, tokens. Lines that a flood of traffic could repeat go
// through `Throttled`, which lets one through for each interval and says how many it held back.
import { isatty } from 'node:tty';
import { styleText } from 'node:util';
import { pino, type Logger } from 'pino';
import type { Clock } from './clock.ts';
import { printable, printableLines } from './printable.ts';

export type Log = Logger;

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export const LOG_FORMATS = ['auto', 'json', 'text'] as const;

/** `auto`: text where standard output is a terminal, else JSON. */
export type LogFormat = (typeof LOG_FORMATS)[number];

export interface LogOptions {
  readonly level: LogLevel;
  readonly format: LogFormat;
}

/** Whether lines are text for people. */
export const isText = (format: LogFormat): boolean => format === 'text' || (format === 'auto' && isatty(1));

/** `name` is the program's. Lines are written synchronously, so the last ones before an exit are not lost. */
export function createLog(name: string, level: LogLevel, format: LogFormat = 'json'): Log {
  const settings = {
    name,
    level,
    base: { pid: process.pid },
    timestamp: pino.stdTimeFunctions.isoTime,
    serializers: { err: withoutInput },
    formatters: { level: (label: string) => ({ level: label }) },
  };
  // Fact: pino's own destination is asynchronous, and its `fatal` overtakes the line before. Choice: a synchronous one.
  const output = pino.destination({ dest: 1, sync: true });
  if (!isText(format)) return pino(settings, { write: (json) => void output.write(printableLines(json)) });
  const colors = isatty(1) && process.stdout.hasColors();
  return pino(settings, { write: (json) => void output.write(textLine(json, colors)) });
}

/** Fact: the error of a URL that cannot be parsed holds the URL in `input`, with its password. */
function withoutInput(cause: Error): object {
  const { input: _, base: __, ...fields } = { ...pino.stdSerializers.err(cause) };
  return fields;
}

/** Members that a line for people shows in a fixed place; `pid` is left out. */
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

/** Lets one line of a kind through for each interval. */
export class Throttled {
  readonly #clock: Clock;
  readonly #intervalMs: number;
  #nextMs = Number.NEGATIVE_INFINITY;
  #heldBack = 0;

  constructor(clock: Clock, intervalMs: number) {
    this.#clock = clock;
    this.#intervalMs = intervalMs;
  }

  /** Calls `write` with the number of calls held back since the last line, or holds this one back. */
  line(write: (heldBack: number) => void): void {
    const now = this.#clock.ms();
    if (now < this.#nextMs) {
      this.#heldBack += 1;
      return;
    }
    this.#nextMs = now + this.#intervalMs;
    const heldBack = this.#heldBack;
    this.#heldBack = 0;
    write(heldBack);
  }
}
