// What a program prints: the only file that writes to standard output and standard error. Names and messages of others
// may be in it, so control characters are escaped.
import { printableLines } from '../lib/process/printable.ts';

export const print = (text: string): void => void process.stdout.write(printableLines(text));

let stepShown = false;

/** Writes lines of a program on standard error, each with its name. */
export const complainer =
  (name: string) =>
  (text: string): void => {
    if (stepShown) showStep('');
    for (const line of text.split('\n')) process.stderr.write(`${name}: ${printableLines(line)}\n`);
  };

/** Replaces the progress line of a long command on a terminal; an empty text removes it. */
export function showStep(text: string): void {
  if (!process.stderr.isTTY) return;
  stepShown = text !== '';
  process.stderr.write(`\r\u001b[K${printableLines(text)}`);
}
