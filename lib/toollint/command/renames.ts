// Renamed files from a list: a JSON object of old paths and new ones. (What git calls renamed: source-changes.ts.)
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { ioFailure, ReportFailure } from '../document/failure.ts';

/** Old path -> new path. Throws ReportFailure. */
export async function readRenames(name: string, cwd: string): Promise<Map<string, string>> {
  const text = await readFile(resolve(cwd, name), 'utf8').catch((cause: unknown) => {
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
