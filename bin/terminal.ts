// Writes to standard output and standard error. Control characters are escaped, because the text may contain names
// and messages from untrusted sources.
import { printableLines } from '../lib/process/printable.ts';

export const print = (text: string): void => void process.stdout.write(printableLines(text));

let stepShown = false;

/** Returns a function that writes lines to standard error, each prefixed with the program's name. */
export const complainer =
  (name: string) =>
  (text: string): void => {
    if (stepShown) showStep('');
    for (const line of text.split('\n')) process.stderr.write(`${name}: ${printableLines(line)}\n`);
  };

/** Replaces the progress line if standard error is a terminal. An empty text removes the line. */
export function showStep(text: string): void {
  if (!process.stderr.isTTY) return;
  stepShown = text !== '';
  process.stderr.write(`\r\u001b[K${printableLines(text)}`);
}
