// Formats numbers, times and tables, and asks questions on the terminal.
import { createInterface } from 'node:readline/promises';
import { TIME_MS_MAX } from '../ingest/warehouse.ts';
import { printableLines } from '../process/printable.ts';

/** Aligns cells in columns. `right` lists the columns of numbers. `indent` begins each line. */
export function table(rows: readonly (readonly string[])[], right: readonly number[], indent = ''): string[] {
  const widths = rows[0]?.map((_, at) => rows.reduce((most, row) => Math.max(most, row[at]?.length ?? 0), 0)) ?? [];
  const aligned = (cell: string, at: number): string =>
    right.includes(at) ? cell.padStart(widths[at] ?? 0) : cell.padEnd(widths[at] ?? 0);
  return rows.map((row) => `${indent}${row.map(aligned).join('  ')}`.trimEnd());
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export function bytesText(bytes: number | undefined): string {
  if (bytes === undefined) return 'unknown';
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${power === 0 ? bytes : (bytes / 1_024 ** power).toFixed(1)} ${UNITS[power]}`;
}

export function durationText(ms: number): string {
  const seconds = ms / 1_000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export const countText = (count: number): string => count.toLocaleString('en-US');

export const counted = (count: number, one: string, many = `${one}s`): string =>
  `${countText(count)} ${count === 1 ? one : many}`;

/** Formats a time as in RFC 3339, in UTC with milliseconds. Entries of other programs may have times without a date. */
export function timeText(ms: number): string {
  const date = new Date(Math.min(ms, TIME_MS_MAX));
  return Number.isNaN(date.valueOf()) ? 'no valid time' : date.toISOString();
}

/** Returns true only for the word `yes`, so that Enter alone changes nothing. An abort means no. */
export async function ask(question: string, stopped: AbortSignal): Promise<boolean> {
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  const input = lines.question(`${printableLines(question)} Type yes to go on: `, { signal: stopped });
  const answer = await input.catch(() => '').finally(() => lines.close());
  return answer.trim() === 'yes';
}
