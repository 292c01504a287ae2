import { execFileSync } from 'node:child_process';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { git, ROOT } from './bench-environment.ts';

export type Machine = ReturnType<typeof machine>;

/** The kind of this machine, without names or paths. */
export const machine = (date: Date) => ({
  date: date.toISOString(),
  commit: git('rev-parse', '--short=12', 'HEAD') + (isChanged() ? '-dirty' : ''),
  cpu: cpus()[0]?.model ?? 'unknown',
  cores: cpus().length,
  node: process.version,
  redis: / v=(\S+)/.exec(output(output(join(ROOT, 'bin/ensure-redis'), []), ['--version']))?.[1] ?? 'unknown',
});

/** Reports whether the programs or the measurements differ from the commit. */
const isChanged = (): boolean => git('status', '--porcelain', '--', 'lib', 'bin', 'bench/**/*.ts', 'bench/*.ts') !== '';

function output(command: string, args: readonly string[]): string {
  try {
    return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return 'unknown';
  }
}
