// Runs the verbs of toollint in this process and creates projects to scan. A project folder is removed after its
// test.
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, realpath, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import type { TestContext } from 'node:test';
import { runToollint } from '../../../lib/toollint/command/command-line.ts';
import type { OutputStream } from '../../../lib/toollint/command/program-io.ts';

export interface ProgramResult {
  code: number;
  stdout: string;
  stderr: string;
}

export interface ProgramOptions {
  cwd?: string;
  env?: Record<string, string>;
  stdin?: string | Uint8Array;
  /** Makes standard output and standard error terminals of this width. */
  terminal?: number;
  signal?: AbortSignal;
  /** A stream in place of the collected standard output. */
  stdout?: OutputStream;
  revision?: () => string;
}

export async function toollint(args: readonly string[], options: ProgramOptions = {}): Promise<ProgramResult> {
  const stdout = collector(options.terminal);
  const stderr = collector(options.terminal);
  const code = await runToollint({
    args,
    env: options.env ?? {},
    cwd: options.cwd ?? tmpdir(),
    stdin: Readable.from(options.stdin === undefined ? [] : [Buffer.from(options.stdin)]),
    stdout: options.stdout ?? stdout.stream,
    stderr: stderr.stream,
    signal: options.signal ?? new AbortController().signal,
    revision: options.revision ?? (() => '0123456789ab'),
  });
  return { code, stdout: stdout.text(), stderr: stderr.text() };
}

function collector(columns: number | undefined): { stream: OutputStream; text: () => string } {
  const chunks: Buffer[] = [];
  const stream: OutputStream = new PassThrough();
  stream.on('data', (chunk: Buffer) => chunks.push(chunk));
  if (columns !== undefined) Object.assign(stream, { isTTY: true, columns });
  return { stream, text: () => Buffer.concat(chunks).toString() };
}

let writtenS = 1_000_000_000;

/**
 * Writes a configuration that this process may have read before. ESLint caches a configuration by its modification
 * time in milliseconds, and two writes may share a millisecond, so each write gets its own time.
 */
export async function writeConfig(path: string, text: string): Promise<void> {
  writtenS += 1;
  await writeFile(path, text);
  await utimes(path, writtenS, writtenS);
}

/** `rules` is the JavaScript source of an object. */
export function configText(rules: string, plugin = '{}'): string {
  return `const rules = ${plugin};\nexport default [{ files: ['**/*.js'], plugins: { own: { rules } }, rules: ${rules} }];\n`;
}

/** Creates a project from files by relative path. Adds an eslint.config.mjs unless it is given or null. */
export async function project(t: TestContext, files: Record<string, string | Uint8Array | null>): Promise<string> {
  // The folder is outside this repository, because ESLint would otherwise find the repository's configuration.
  const folder = await realpath(await mkdtemp('/tmp/toollint-test-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const all = { 'eslint.config.mjs': configText(`{ 'no-console': 'warn', 'no-var': 'error' }`), ...files };
  for (const [name, content] of Object.entries(all)) {
    if (content === null) continue;
    const path = join(folder, name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, content);
  }
  return folder;
}

export function git(cwd: string, ...args: string[]): string {
  const options = { cwd, stdio: 'pipe', encoding: 'utf8' } as const;
  return execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.org', ...args], options).trim();
}

export function committed(cwd: string, message = 'one'): void {
  git(cwd, 'add', '.');
  git(cwd, 'commit', '-qm', message);
}

/** Creates a project whose files are the first commit of a git repository. */
export async function repository(t: TestContext, files: Record<string, string>): Promise<string> {
  const cwd = await project(t, files);
  git(cwd, 'init', '-q', '-b', 'main');
  committed(cwd);
  return cwd;
}

export async function writeJson(folder: string, name: string, value: unknown): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, typeof value === 'string' ? value : JSON.stringify(value));
  return path;
}
