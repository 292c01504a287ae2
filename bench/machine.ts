import { execFileSync } from 'node:child_process';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { ROOT } from './bench-environment.ts';

export type Machine = ReturnType<typeof machine>;

export const machine = (date: Date, rounds: number, seconds: number) => ({
  date: date.toISOString(),
  commit: output('git', ['-C', ROOT, 'describe', '--always', '--dirty']),
  cpu: cpus()[0]?.model ?? 'unknown',
  cores: cpus().length,
  node: process.version,
  redis: / v=(\S+)/.exec(output(output(join(ROOT, 'bin/ensure-redis'), []), ['--version']))?.[1] ?? 'unknown',
  ...{ rounds, seconds },
});

function output(command: string, args: readonly string[]): string {
  try {
    return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return 'unknown';
  }
}
