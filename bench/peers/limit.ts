// Compiles limit.c, the fastest server for this machine.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import type { BenchEnvironment } from '../bench-environment.ts';

/** undefined, with a line on standard error, without a C compiler and OpenSSL's headers. */
export function compileLimit({ folder }: BenchEnvironment): string | undefined {
  const binary = join(folder, 'limit');
  const source = join(import.meta.dirname, 'limit.c');
  const compiled = spawnSync('cc', ['-O2', '-o', binary, source, '-lssl', '-lcrypto'], { encoding: 'utf8' });
  if (compiled.status === 0) return binary;
  const why = compiled.error?.message ?? compiled.stderr.split('\n')[0] ?? '';
  process.stderr.write(`the limit in C is left out: a C compiler and OpenSSL's headers are needed (${why})\n`);
  return undefined;
}
