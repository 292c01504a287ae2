// Runs the verbs of toollint in this process with streams of its own, and makes projects for it to scan. A project's folder is
// removed when its test ends.
import { mkdir, mkdtemp, realpath, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import type { TestContext } from 'node:test';
import { runToollint } from '../../../lib/toollint/command/command-line.ts';
import type { OutputStream } from '../../../lib/toollint/command/program-io.ts';
import type { Report } from '../../../lib/toollint/document/report-schema.ts';

/** What a run left behind. */
export interface ProgramResult {
  code: number;
  stdout: string;
  stderr: string;
}

export interface ProgramOptions {
  cwd?: string;
  env?: Record<string, string>;
  stdin?: string | Uint8Array;
  /** Standard output and error are terminals of so many columns. */
  terminal?: number;
  signal?: AbortSignal;
}

/** Runs the program to its end. */
export async function toollint(args: readonly string[], options: ProgramOptions = {}): Promise<ProgramResult> {
  const stdout = collector(options.terminal);
  const stderr = collector(options.terminal);
  const code = await runToollint({
    args,
    env: options.env ?? {},
    cwd: options.cwd ?? tmpdir(),
    stdin: Readable.from(options.stdin === undefined ? [] : [Buffer.from(options.stdin)]),
    stdout: stdout.stream,
    stderr: stderr.stream,
    signal: options.signal ?? new AbortController().signal,
    revision: () => '0123456789ab',
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
 * Writes a configuration that may have been read before in this process. ESLint takes a file for the one that it has
 * read where both are of one millisecond, and the machine's clock may not move on between two writes.
 */
export async function writeConfig(path: string, text: string): Promise<void> {
  writtenS += 1;
  await writeFile(path, text);
  await utimes(path, writtenS, writtenS);
}

/** A configuration whose rules stand in one file; `rules` is JavaScript source of an object. */
export function configText(rules: string, plugin = '{}'): string {
  return `const rules = ${plugin};\nexport default [{ files: ['**/*.js'], plugins: { own: { rules } }, rules: ${rules} }];\n`;
}

/** Files by relative path; an eslint.config.mjs is written unless given or null. */
export async function project(t: TestContext, files: Record<string, string | Uint8Array | null>): Promise<string> {
  // Never below a copy of this repository, whose configuration ESLint would find.
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

/** Scans a project; the document must be one. */
export async function scanned(
  cwd: string,
  args: readonly string[] = [],
  options: ProgramOptions = {},
): Promise<{ report: Report; code: number; stderr: string }> {
  const { code, stdout, stderr } = await toollint(['scan', '--deterministic', ...args], { cwd, ...options });
  if (stdout === '') throw new Error(`no report: ${stderr}`);
  return { report: JSON.parse(stdout) as Report, code, stderr };
}

/** Writes a value as JSON; the path. */
export async function writeJson(folder: string, name: string, value: unknown): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, typeof value === 'string' ? value : JSON.stringify(value));
  return path;
}
