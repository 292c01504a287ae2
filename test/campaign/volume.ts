// A folder whose disk can be full. As root it is a tmpfs that shrinks to its content, so that writes fail with ENOSPC.
// Otherwise the writing processes get a file size limit (prlimit), so that writes fail with EFBIG.
import { execFileSync } from 'node:child_process';
import { chmodSync, statfsSync } from 'node:fs';
import { atEnd, temporaryFolder } from '../support/scope.ts';

const BYTES = 1 << 30;
/** Under this limit existing files can be read, and hardly any can grow. */
const FILE_BYTES_MAX = 64 << 10;

// A signal would skip the exit handlers, which unmount the volume and end the processes.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

export class Volume {
  readonly folder = temporaryFolder('ingest-volume-');
  readonly mounted: boolean;
  readonly #unmount = (): void => void run('umount', '--lazy', this.folder);

  constructor() {
    this.mounted = run('mount', '-t', 'tmpfs', '-o', `size=${BYTES},mode=0755`, 'tmpfs', this.folder);
    // The user of PostgreSQL must get through.
    if (!this.mounted) chmodSync(this.folder, 0o755);
    if (!this.mounted) return;
    process.once('exit', this.#unmount);
    atEnd(() => this.close());
  }

  /** May be called twice. */
  close(): void {
    if (!process.listeners('exit').includes(this.#unmount)) return;
    process.removeListener('exit', this.#unmount);
    this.#unmount();
  }

  /** `writers`: ids of the processes that write here. */
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
  try {
    execFileSync(command, args, { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
