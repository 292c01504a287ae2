// The limit of the machine (limit.c), compiled where there is a C compiler with OpenSSL's headers; else it is left out.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import type { BenchEnvironment } from '../bench-environment.ts';

/**
 * The path of the compiled program, in the environment's folder; undefined, and a line on standard error, where there
 * is none.
 */
export function compileLimit({ folder }: BenchEnvironment): string | undefined {
  const binary = join(folder, 'limit');
  const source = join(import.meta.dirname, 'limit.c');
  const compiled = spawnSync('cc', ['-O2', '-o', binary, source, '-lssl', '-lcrypto'], { encoding: 'utf8' });
  if (compiled.status === 0) return binary;
  const why = compiled.error?.message ?? compiled.stderr.split('\n')[0] ?? '';
  process.stderr.write(`the limit in C is left out: a C compiler and OpenSSL's headers are needed (${why})\n`);
  return undefined;
}
