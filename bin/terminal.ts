// Standard output, standard error, signals and the end of a program.
//
// Control characters are escaped, because the text may contain names and messages from untrusted sources. This is the
// only file that calls process.exit. That function discards output that does not fit into a pipe (64 KiB), so a program
// exits only after all of its output has been written, however slow the reader is.
import { printableLines } from '../lib/process/printable.ts';

// By default, this signal opens node's debugger, through which other users of the machine can read the process.
process.on('SIGUSR1', () => undefined);

export const print = (text: string): void => void process.stdout.write(printableLines(text));

let stepShown = false;

/** Returns a function that writes lines to standard error, each prefixed with the program's name. */
export const complainer =
  (name: string) =>
  (text: string): void => {
    if (stepShown) showStep('');
    for (const line of text.split('\n')) process.stderr.write(`${name}: ${printableLines(line)}\n`);
  };

export function showStep(text: string): void {
  if (!process.stderr.isTTY) return;
  stepShown = text !== '';
  process.stderr.write(`\r\u001b[K${printableLines(text)}`);
}

/** Exits immediately, for example after a second signal or at a deadline. Unwritten output is lost. */
export function endNow(code: number): never {
  ending = true;
  return process.exit(code);
}
let ending = false;

/** False if other code in this process called process.exit, or if nothing was left to wait for. */
export const isEnding = (): boolean => ending;

let signalListener: ((signal: NodeJS.Signals) => void) | undefined;

/** Calls `listener` on SIGINT and SIGTERM, in place of the previous one. */
export function onSignals(listener: (signal: NodeJS.Signals) => void): void {
  if (signalListener === undefined)
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => signalListener?.(signal));
  signalListener = listener;
}

/** Returns a signal that aborts on the first SIGINT or SIGTERM. A second one makes the program exit with `code`. */
export function stopSignal(code: number): AbortSignal {
  const stop = new AbortController();
  onSignals(() => (stop.signal.aborted ? endNow(code) : stop.abort()));
  return stop.signal;
}

/** Exits when standard output and standard error have been flushed, or when a signal arrives. */
export async function endWritten(code: number): Promise<never> {
  ending = true;
  onSignals(() => endNow(code));
  await Promise.all([process.stdout, process.stderr].map(written));
  return endNow(code);
}

export const written = (stream: NodeJS.WriteStream): Promise<void> =>
  new Promise((resolve) => void stream.write('', () => resolve()));

/**
 * Handles the first error on standard output: calls `closed` if the reader closed the pipe (`| head`), and complains
 * and calls `failed` on any other error, such as a full disk. Errors on standard error are ignored.
 */
export function onOutputFailure(name: string, closed: () => void, failed: () => void): void {
  process.stderr.on('error', () => undefined);
  let isOpen = true;
  process.stdout.on('error', (cause: NodeJS.ErrnoException) => {
    if (!isOpen) return;
    isOpen = false;
    if (cause.code === 'EPIPE') return closed();
    complainer(name)(`standard output cannot be written (${cause.code ?? cause.message})`);
    failed();
  });
}
