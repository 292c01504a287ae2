// Makes system calls fail in a process while a file exists: fsync and fdatasync with EIO (`fsync`), or getaddrinfo
// with EAI_AGAIN, as if no name server were reachable (`names`).
import { execFileSync } from 'node:child_process';
import { chmodSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from './scope.ts';
import { tool } from './tool.ts';

const SOURCE = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static int fails(const char *calls) {
  const char *flag = getenv(calls);
  if (!flag || access(flag, F_OK) != 0) return 0;
  char met[4096];
  snprintf(met, sizeof met, "%s.met", flag);
  int file = open(met, O_WRONLY | O_APPEND);
  if (file >= 0) { if (write(file, ".", 1) < 0) {} close(file); }
  return 1;
}
static int synced(long number, int file) {
  if (fails("FAILING_FSYNC")) { errno = EIO; return -1; }
  return syscall(number, file);
}
int fsync(int file) { return synced(SYS_fsync, file); }
int fdatasync(int file) { return synced(SYS_fdatasync, file); }
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
  if (fails("FAILING_NAMES")) return EAI_AGAIN;
  int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
  return next(node, service, hints, found);
}
`;

export class FailingCalls {
  readonly environment: Readonly<Record<string, string>>;
  readonly #flag: string;

  /** `preloaded` names libraries that LD_PRELOAD must contain in addition to this one. */
  constructor(calls: 'fsync' | 'names', preloaded?: string) {
    const folder = temporaryFolder('ingest-calls-');
    chmodSync(folder, 0o755);
    const library = join(folder, 'failing-calls.so');
    execFileSync(tool('cc', 'build-essential'), ['-shared', '-fPIC', '-O1', '-x', 'c', '-o', library, '-', '-ldl'], {
      input: SOURCE,
    });
    this.#flag = join(folder, 'fails');
    writeFileSync(`${this.#flag}.met`, '');
    chmodSync(`${this.#flag}.met`, 0o666); // PostgreSQL runs as another user.
    const libraries = preloaded === undefined ? library : `${library}:${preloaded}`;
    this.environment = { LD_PRELOAD: libraries, [`FAILING_${calls.toUpperCase()}`]: this.#flag };
  }

  get met(): number {
    return statSync(`${this.#flag}.met`).size;
  }

  begin(): void {
    writeFileSync(this.#flag, '');
  }

  end(): void {
    rmSync(this.#flag, { force: true });
  }
}
