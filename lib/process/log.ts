// Writes the log to standard output, as JSON or as text for people.
//
// Event bodies, passwords, private keys and tokens are never logged. Lines that traffic can repeat without limit are
// throttled.
import { isatty } from 'node:tty';
import { pino, type Logger } from 'pino';
import type { Clock } from './clock.ts';
import { logOutput } from './log-output.ts';
import { printable, printableLines } from './printable.ts';

export type Log = Logger;

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** A terminal shows text, and everything else reads JSON. */
export const logsText = (): boolean => isatty(1);

/** All logs of a process share it, so that their lines do not mix. */
let standardOutput: ReturnType<typeof logOutput> | undefined;

export function createLog(name: string, level: LogLevel): Log {
  const settings = {
    name,
    level,
    base: { pid: process.pid },
    timestamp: pino.stdTimeFunctions.isoTime,
    serializers: { err: withoutInput },
    formatters: { level: (label: string) => ({ level: label }) },
  };
  return pino(settings, (standardOutput ??= logOutput(logsText() ? textLine : printableLines)));
}

/** Removes `input` and `base`, where the error for a malformed URL contains the whole URL, including its password. */
function withoutInput(cause: Error): object {
  const { input: _, base: __, ...fields } = { ...pino.stdSerializers.err(cause) };
  return fields;
}

/** The members of a log line that are not shown as `key=value`. */
type LogLine = Readonly<Partial<Record<'time' | 'level' | 'name' | 'msg' | 'pid', string>>> & { readonly err?: Error };

/** Converts a JSON line to text for people. pino-pretty does the same, but would install thirteen packages. */
export function textLine(json: string): string {
  let line: LogLine;
  try {
    line = JSON.parse(json) as LogLine;
  } catch {
    return printableLines(json);
  }
  const { time, level = 'info', name, msg, pid: _, err, ...fields } = line;
  const label = level.toUpperCase().padEnd(5);
  const parts = [name, msg];
  for (const [key, value] of Object.entries(fields)) parts.push(`${key}=${fieldText(value)}`);
  const text = `${time === undefined ? '' : `${time} `}${label} ${printable(parts.filter(Boolean).join(' '))}`;
  const stack = err?.stack ?? err?.message;
  return stack === undefined ? `${text}\n` : `${text}\n    ${printableLines(stack).replaceAll('\n', '\n    ')}\n`;
}

/** Returns JSON unless the plain text is unambiguous, so a field never contains a line break. */
const fieldText = (value: unknown): string =>
  typeof value === 'string' && /^[^\s"=\p{Cc}]+$/u.test(value) ? value : JSON.stringify(value);

export type Throttled = (write: (heldBack: number) => void) => void;

/**
 * Returns a function for messages that could repeat without limit. In each interval, it calls `write` once, with the
 * number of calls suppressed since the last one.
 */
export function throttled(clock: Clock, intervalMs: number): Throttled {
  let nextMs = Number.NEGATIVE_INFINITY;
  let calls = 0;
  return (write) => {
    const now = clock.ms();
    calls += 1;
    if (now < nextMs) return;
    nextMs = now + intervalMs;
    write(calls - 1);
    calls = 0;
  };
}
