#!/usr/bin/env node
// toollint: connects lib/toollint/command/command-line.ts to the streams, signals, environment and exit code of this
// process. That file is imported only after the version of Node has been checked.
import { Console } from 'node:console';
import { lstatSync, statSync } from 'node:fs';
import * as nodeModule from 'node:module';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { makeFolder } from '../lib/process/make-folder.ts';
import { BUILD } from '../lib/process/program.ts';
import { complainer, endNow, endWritten, isEnding, stopSignal } from './terminal.ts';

const EXIT_FAILURE = 2;
const EXIT_INTERRUPTED = 130;
const EXIT_OUTPUT_CLOSED = 141;

const complain = complainer('toollint');

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 15)) {
  complain(`Node.js 22.15 or newer is needed, this is ${process.versions.node}`);
  endNow(EXIT_FAILURE);
}
/**
 * Returns a folder for V8's compile cache that only this user can write to, or undefined. Node's default is the
 * system's temporary folder, where another user could store code that this process would run.
 */
function ownCache(): string | undefined {
  try {
    const base = process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache');
    const cache = join(base, 'toollint');
    makeFolder(cache, 0o700);
    const isOwn = (folder: string, forbidden: number) => {
      const status = lstatSync(folder);
      return status.isDirectory() && status.uid === process.getuid?.() && (status.mode & forbidden) === 0;
    };
    return isOwn(base, 0o022) && isOwn(cache, 0o077) ? cache : undefined;
  } catch {
    return undefined;
  }
}

// The cache reduces startup time by a third. NODE_COMPILE_CACHE overrides the folder.
const cache = process.env['NODE_COMPILE_CACHE'] || ownCache();
if (cache !== undefined) nodeModule.enableCompileCache(cache);
// A small young generation and a slowly growing old generation keep a scan's memory below that of plain ESLint, at
// the cost of some CPU time.
setFlagsFromString('--max-semi-space-size=8');
setFlagsFromString('--heap-growing-percent=150');

process.on('exit', () => {
  if (isEnding()) return;
  complain('a rule or a configuration ended the process, or waits forever');
  process.exitCode = EXIT_FAILURE;
});

const interrupt = stopSignal(EXIT_INTERRUPTED);
process.on('SIGHUP', () => process.emit('SIGTERM'));

// Each write to standard output reports its own failure. Without these listeners, the handler below would also end
// the program if standard error were closed.
const { stdout } = process;
stdout.on('error', () => undefined);
process.stderr.on('error', () => undefined);
// Rules and configurations are third-party code. Their output must not become part of the document.
globalThis.console = new Console(process.stderr, process.stderr);
Object.defineProperty(process, 'stdout', { value: process.stderr });
process.on('uncaughtException', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') endNow(EXIT_OUTPUT_CLOSED);
  complain(`internal error: ${error.message}`);
  endNow(EXIT_FAILURE);
});

/**
 * typescript-eslint computes types once only for ESLint's own program, and otherwise with programs that follow changes,
 * whose types may differ. Other plugins look for their settings in the working folder.
 */
function enterLinter(root: string): void {
  process.env['TSESTREE_SINGLE_RUN'] ??= 'true';
  process.argv.splice(1, Infinity, join(root, 'node_modules/eslint/bin/eslint.js'));
  if (statSync(root, { throwIfNoEntry: false })?.isDirectory() === true) process.chdir(root);
}

const { runToollint } = await import('../lib/toollint/command/command-line.ts');
const code = await runToollint({
  args: process.argv.slice(2),
  env: process.env,
  cwd: process.cwd(),
  stdin: process.stdin,
  stdout,
  stderr: process.stderr,
  signal: interrupt,
  revision: () => BUILD.revision,
  enterLinter,
});
await endWritten(code);
