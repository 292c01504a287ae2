import { execFileSync } from 'node:child_process';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { ROOT } from './bench-environment.ts';

export interface Machine {
  readonly date: string;
  readonly commit: string;
  readonly cpu: string;
  readonly cores: number;
  readonly node: string;
  readonly redis: string;
  readonly rounds: number;
  readonly seconds: number;
}

export function machine(date: Date, rounds: number, seconds: number): Machine {
  const redis = output(join(ROOT, 'bin/ensure-redis'), []);
  return {
    date: date.toISOString(),
    commit: output('git', ['-C', ROOT, 'describe', '--always', '--dirty']),
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    node: process.version,
    redis: / v=(\S+)/.exec(output(redis, ['--version']))?.[1] ?? 'unknown',
    rounds,
    seconds,
  };
}

function output(command: string, args: readonly string[]): string {
  try {
    return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return 'unknown';
  }
}
