// A folder whose disk can be full. For root, the folder is a tmpfs that shrinks to its content, so writes fail with
// ENOSPC. For other users, the writing processes get a file size limit (prlimit), so writes fail with EFBIG.
import { spawnSync } from 'node:child_process';
import { chmodSync, statfsSync } from 'node:fs';
import { atEnd, temporaryFolder } from '../support/scope.ts';

const BYTES = 1 << 30;
/** With this file size limit, existing files can be read, but hardly any file can grow. */
const FILE_BYTES_MAX = 64 << 10;

// A signal would skip the exit handlers, which unmount the volume and kill the processes, so signals become exits.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

export class Volume {
  readonly folder = temporaryFolder('ingest-volume-');
  readonly mounted: boolean;
  readonly #unmount = (): void => void run('umount', '--lazy', this.folder);

  constructor() {
    this.mounted = run('mount', '-t', 'tmpfs', '-o', `size=${BYTES},mode=0755`, 'tmpfs', this.folder);
    // PostgreSQL runs as another user, who must be able to enter the folder.
    if (!this.mounted) chmodSync(this.folder, 0o755);
    if (!this.mounted) return;
    process.once('exit', this.#unmount);
    atEnd(() => this.close());
  }

  close(): void {
    if (!process.listeners('exit').includes(this.#unmount)) return;
    process.removeListener('exit', this.#unmount);
    this.#unmount();
  }

  /** Fills the disk. `writers` are the ids of the processes that write to the folder. */
  fill(writers: readonly number[]): void {
    if (!this.mounted) {
      for (const pid of writers) run('prlimit', '--pid', String(pid), `--fsize=${FILE_BYTES_MAX}:`);
      return;
    }
    const { blocks, bfree, bsize } = statfsSync(this.folder);
    run('mount', '-o', `remount,size=${(blocks - bfree) * bsize}`, this.folder);
  }

  empty(writers: readonly number[]): void {
    if (this.mounted) run('mount', '-o', `remount,size=${BYTES}`, this.folder);
    else for (const pid of writers) run('prlimit', '--pid', String(pid), '--fsize=unlimited:');
  }
}

function run(command: string, ...args: string[]): boolean {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0;
}
