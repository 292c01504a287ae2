// Everything that the command line needs from its environment. bin/toollint.ts and the tests provide it.
import type { Readable, Writable } from 'node:stream';
import { terminalLines, withoutC1 } from '../convert/plain-text.ts';
import { errnoOf, ioFailure, throwIfInterrupted } from '../document/failure.ts';
import type { TextSink } from '../document/output-file.ts';

export type OutputStream = Writable & { readonly isTTY?: boolean; readonly columns?: number };

export interface ProgramIo {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly stdin: Readable;
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly signal: AbortSignal;
  readonly revision: () => string;
  /** Makes this process look like ESLint's own program in the root, because plugins and configurations ask. */
  readonly enterLinter?: (root: string) => void;
}

/** The reader of standard output closed it, as `| head` does. */
export class OutputClosed extends Error {}

/** Returns a sink that waits until each text is written. Escapes control characters as JSON does. */
export function streamSink(stream: Writable, name: string, signal?: AbortSignal): TextSink {
  return (text) =>
    new Promise((resolve, reject) => {
      throwIfInterrupted(signal);
      if (text === '') return resolve();
      stream.write(withoutC1(text), (error) => {
        if (error === null || error === undefined) resolve();
        else if (errnoOf(error) === 'EPIPE' || errnoOf(error) === 'ERR_STREAM_DESTROYED') reject(new OutputClosed());
        else reject(ioFailure('write', name, error));
      });
    });
}

export function note({ stderr }: ProgramIo, text: string): void {
  stderr.write(`toollint: ${terminalLines(text)}\n`);
}

const PROGRESS_INTERVAL_MS = 100;

/** Returns a function that shows the progress of a scan on a terminal, and without arguments removes it. */
export function progressLine({ stderr, env }: ProgramIo): (done?: number, total?: number) => void {
  if (stderr.isTTY !== true || env['TERM'] === 'dumb' || env['CI']) return () => undefined;
  let lastMs = performance.now();
  return (done, total) => {
    if (done !== total && performance.now() - lastMs < PROGRESS_INTERVAL_MS) return;
    lastMs = performance.now();
    stderr.write(done === undefined ? '\r\u001b[K' : `\r\u001b[K${done}/${total} files`);
  };
}
