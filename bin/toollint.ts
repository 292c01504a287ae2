// The program toollint: the process around lib/toollint/command/command-line.ts. It owns the streams, the signals, the
// environment and the exit.
import { Console } from 'node:console';
import { runToollint } from '../lib/toollint/command/command-line.ts';
import { EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OUTPUT_CLOSED } from '../lib/toollint/command/exit-code.ts';
import { complainer } from './output.ts';
import { endNow, endWritten } from './process-end.ts';

const interrupt = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    // A second signal does not wait for the file in work.
    if (interrupt.signal.aborted) endNow(EXIT_INTERRUPTED);
    interrupt.abort();
  });
}

// Rules and configurations are foreign code: what they print must not get into the document.
globalThis.console = new Console(process.stderr, process.stderr);
// Each write reports its own failure; these keep a closed pipe from ending the process with a stack trace.
process.stdout.on('error', () => undefined);
process.stderr.on('error', () => undefined);
process.on('uncaughtException', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') endNow(EXIT_OUTPUT_CLOSED);
  complainer('toollint')(`internal error: ${error.message}`);
  endNow(EXIT_FAILURE);
});

await endWritten(
  await runToollint({
    args: process.argv.slice(2),
    env: process.env,
    cwd: process.cwd(),
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    signal: interrupt.signal,
  }),
);
