// A folder whose disk can be full. As root it is a file system of its own in memory, which is made as small as what it
// holds: every write then fails with ENOSPC. Without that right, the processes that write get a limit on a file's size
// (prlimit), and fail with EFBIG where a file grows; that needs no right over one's own processes.
import { execFileSync } from 'node:child_process';
import { chmodSync, statfsSync } from 'node:fs';
import { atEnd, temporaryFolder } from '../support/scope.ts';

const BYTES = 1 << 30;
/** Under this limit, files that exist can be read, and hardly any can grow. */
const FILE_BYTES_MAX = 64 << 10;

// Interrupted, a process would end without its exit handlers, which unmount and end what was started.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

export class Volume {
  readonly folder = temporaryFolder('ingest-volume-');
  /** Whether it is a file system of its own. */
  readonly mounted: boolean;
  readonly #unmount = (): void => void run('umount', '--lazy', this.folder);

  constructor() {
    this.mounted = run('mount', '-t', 'tmpfs', '-o', `size=${BYTES},mode=0755`, 'tmpfs', this.folder);
    // PostgreSQL's own user must get through.
    if (!this.mounted) chmodSync(this.folder, 0o755);
    if (!this.mounted) return;
    process.once('exit', this.#unmount);
    atEnd(() => this.close());
  }

  /** What it holds is gone. Idempotent. */
  close(): void {
    if (!process.listeners('exit').includes(this.#unmount)) return;
    process.removeListener('exit', this.#unmount);
    this.#unmount();
  }

  /** No byte more for `writers`, the ids of the processes that write here. */
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

/** Whether it could be done. */
function run(command: string, ...args: string[]): boolean {
  try {
    execFileSync(command, args, { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
