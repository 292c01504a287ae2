// Renamed files, for a baseline: from git, which knows them by content, or from a file that names them.
//
//   git:REF   what git calls a rename between REF and the files as they are, below the folder of the scan
//   FILE      a JSON object of old paths and new ones
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { ioFailure, oneLine, ReportFailure } from '../document/failure.ts';

const OUTPUT_BYTES_MAX = 256 << 20;

/** Old path -> new path. `folder` is where git looks, `cwd` what FILE is relative to. Throws ReportFailure. */
export async function readRenames(source: string, folder: string, cwd: string): Promise<Map<string, string>> {
  return source.startsWith('git:')
    ? renamesOfGit(source.slice('git:'.length), folder)
    : renamesOfFile(resolve(cwd, source), source);
}

async function renamesOfGit(ref: string, cwd: string): Promise<Map<string, string>> {
  if (ref === '') throw new ReportFailure('usage', '--renames git: needs a commit, as in --renames git:main');
  const args = [
    'diff',
    '--no-ext-diff',
    '--find-renames',
    '-l0',
    '--diff-filter=R',
    '--name-status',
    '-z',
    '--relative',
    '--end-of-options',
    ref,
    '--',
  ];
  const { stdout } = await promisify(execFile)('git', args, { cwd, maxBuffer: OUTPUT_BYTES_MAX }).catch(
    (cause: unknown) => {
      const text = (cause as { stderr?: unknown }).stderr;
      const reason = typeof text === 'string' && text !== '' ? text : String(cause);
      throw new ReportFailure('usage', `--renames git:${ref}: ${oneLine(reason)}`, cause);
    },
  );
  const fields = stdout.split('\0');
  const renames = new Map<string, string>();
  for (let at = 0; at + 2 < fields.length; at += 3)
    renames.set((fields[at + 1] ?? '').normalize('NFC'), (fields[at + 2] ?? '').normalize('NFC'));
  return renames;
}

async function renamesOfFile(path: string, name: string): Promise<Map<string, string>> {
  const text = await readFile(path, 'utf8').catch((cause: unknown) => {
    throw ioFailure('read', name, cause);
  });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new ReportFailure('usage', `${name} is not JSON`, cause);
  }
  const pairs =
    typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.entries(value) : undefined;
  if (pairs === undefined || pairs.some(([, to]) => typeof to !== 'string')) {
    throw new ReportFailure('usage', `${name} needs a JSON object of old paths and new ones`);
  }
  return new Map(pairs as [string, string][]);
}
