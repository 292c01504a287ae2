// The end of a process: the only file that calls process.exit.
//
// Fact: process.exit drops what the reader of a pipe has not taken yet, and a pipe holds 64 KiB. Choice: a program ends
// once its output is written, however slowly it is read.
import { complainer } from './output.ts';

/** Ends immediately. For a second signal, a deadline and a bug: output that still waits for its reader is lost. */
export const endNow = (code: number): never => process.exit(code);

/** Ends once standard output and standard error are written; a signal ends it immediately. */
export async function endWritten(code: number): Promise<never> {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => endNow(code));
  await Promise.all([process.stdout, process.stderr].map(written));
  return endNow(code);
}

/** Resolves once the stream has written everything, or has failed. */
export const written = (stream: NodeJS.WriteStream): Promise<void> =>
  new Promise((resolve) => void stream.write('', () => resolve()));

/**
 * What happens when standard output cannot be written: `closed` runs where its reader went away (`| head`), any other
 * failure (a full disk) ends the program with `failed`. A failing standard error is ignored.
 */
export function onOutputFailure(name: string, closed: () => void, failed: number): void {
  process.stderr.on('error', () => undefined);
  process.stdout.on('error', (cause: NodeJS.ErrnoException) => {
    if (cause.code === 'EPIPE') return closed();
    complainer(name)(`standard output cannot be written (${cause.code ?? cause.message})`);
    endNow(failed);
  });
}
