// A disk whose fsync fails: a process that is started with this environment gets EIO from fsync and fdatasync for as long
// as a file is there. What it wrote is in the system's cache, and nobody may say that it is on the disk.
import { execFileSync } from 'node:child_process';
import { chmodSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from './scope.ts';

const SOURCE = `
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static int call(long number, int file) {
  const char *flag = getenv("FAILING_FSYNC");
  if (flag && access(flag, F_OK) == 0) { errno = EIO; return -1; }
  return syscall(number, file);
}
int fsync(int file) { return call(SYS_fsync, file); }
int fdatasync(int file) { return call(SYS_fdatasync, file); }
`;

export class FailingFsync {
  readonly environment: Readonly<Record<string, string>>;
  readonly #flag: string;

  /** `preloaded` are the libraries that the process loads already. */
  constructor(preloaded?: string) {
    execFileSync(new URL('../../bin/ensure-command', import.meta.url).pathname, ['cc', 'build-essential']);
    const folder = temporaryFolder('ingest-fsync-');
    chmodSync(folder, 0o755);
    const library = join(folder, 'failing-fsync.so');
    execFileSync('cc', ['-shared', '-fPIC', '-O1', '-x', 'c', '-o', library, '-'], { input: SOURCE });
    this.#flag = join(folder, 'fails');
    const libraries = preloaded === undefined ? library : `${library}:${preloaded}`;
    this.environment = { LD_PRELOAD: libraries, FAILING_FSYNC: this.#flag };
  }

  begin(): void {
    writeFileSync(this.#flag, '');
  }

  end(): void {
    rmSync(this.#flag, { force: true });
  }
}
