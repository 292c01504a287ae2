// The only file that calls process.exit. That function discards output that does not fit into a pipe (64 KiB), so a
// program exits only after all of its output has been written, however slow the reader is.
import { complainer } from './terminal.ts';

/** Exits immediately, for example after a second signal or at a deadline. Unwritten output is lost. */
export const endNow = (code: number): never => process.exit(code);

/** Returns a signal that aborts on the first SIGINT or SIGTERM. A second one makes the program exit with `code`. */
export const stopSignal = (code: number): AbortSignal => {
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.on(signal, () => (stop.signal.aborted ? endNow(code) : stop.abort()));
  return stop.signal;
};

/** Exits when standard output and standard error have been flushed, or when a signal arrives. */
export async function endWritten(code: number): Promise<never> {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => endNow(code));
  await Promise.all([process.stdout, process.stderr].map(written));
  return endNow(code);
}

/** Resolves when everything has been written to the stream, or when the stream has failed. */
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
