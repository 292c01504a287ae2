// Ends the process. Only this file calls process.exit.
//
// Fact: process.exit drops output that a pipe (64 KiB) has no room for. Choice: a program ends when its output is
// written, however slow the reader is.
import { complainer } from './output.ts';

/** Ends immediately, at a second signal, a deadline or a bug. Unwritten output is lost. */
export const endNow = (code: number): never => process.exit(code);

/** Ends when standard output and standard error are written, or at a signal. */
export async function endWritten(code: number): Promise<never> {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => endNow(code));
  await Promise.all([process.stdout, process.stderr].map(written));
  return endNow(code);
}

/** Resolves when the stream has written everything, or has failed. */
export const written = (stream: NodeJS.WriteStream): Promise<void> =>
  new Promise((resolve) => void stream.write('', () => resolve()));

/**
 * Handles failures of standard output: a closed pipe (`| head`) calls `closed`, any other failure (a full disk) ends
 * the program with the code `failed`. Failures of standard error are ignored.
 */
export function onOutputFailure(name: string, closed: () => void, failed: number): void {
  process.stderr.on('error', () => undefined);
  process.stdout.on('error', (cause: NodeJS.ErrnoException) => {
    if (cause.code === 'EPIPE') return closed();
    complainer(name)(`standard output cannot be written (${cause.code ?? cause.message})`);
    endNow(failed);
  });
}
