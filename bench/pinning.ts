// Processes held to a core (taskset): the load on one, server and Redis on another, so that neither takes the other's
// turn.
import { spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';

export interface Pinning {
  readonly server: string;
  readonly load: string;
}

/** Undefined where there is one core, or no taskset. */
export const PINNING: Pinning | undefined =
  availableParallelism() >= 2 && spawnSync('taskset', ['--version']).status === 0
    ? { server: '0', load: '1' }
    : undefined;

/** All threads of a running process, from now on. */
export function pin(pid: number, core: string): void {
  const { status, stderr } = spawnSync('taskset', ['-a', '-c', '-p', core, String(pid)], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`taskset: ${stderr}`);
}
