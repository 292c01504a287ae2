// The clock of the queue's servers, which the campaign sets: libfaketime, loaded before the server's own libraries, reads how far
// it is off from a file, once a second.
//
// Fact: Redis' allocator asks for the time while libfaketime looks for the real clock, and each waits for the other. Choice: the C
// library is loaded right behind it, so that Redis allocates by that.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../support/scope.ts';

const ENSURE = new URL('../../bin/ensure-command', import.meta.url).pathname;

export class Clock {
  /** How often it was moved. */
  moves = 0;
  readonly environment: Readonly<Record<string, string>>;
  readonly #file = join(temporaryFolder('ingest-clock-'), 'offset');

  /** Where it stands at the start, in seconds from the true time. */
  readonly startS: number;

  constructor(startS: number) {
    this.startS = startS;
    this.#write(startS);
    this.environment = {
      LD_PRELOAD: `${library()}:libc.so.6`,
      FAKETIME_TIMESTAMP_FILE: this.#file,
      // In seconds. A change is seen after as long, and the file is not read anew for every command.
      FAKETIME_CACHE_DURATION: '1',
      // Time-outs go on as they are: a clock that is set does not move them.
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    };
  }

  /** Off the true time by so many seconds, from now on. */
  set(seconds: number): void {
    this.moves += 1;
    this.#write(seconds);
  }

  #write(seconds: number): void {
    writeFileSync(this.#file, `${seconds < 0 ? '-' : '+'}${Math.abs(seconds)}\n`);
  }
}

/** The library's path: the program of its package tells it to the program that it starts. */
function library(): string {
  const faketime = execFileSync(ENSURE, ['faketime', 'faketime'], { encoding: 'utf8' }).trim();
  const told = execFileSync(faketime, ['-m', '-f', '+0', 'printenv', 'LD_PRELOAD'], { encoding: 'utf8' });
  const [path] = told.trim().split(/[: ]/);
  if (path === undefined || path === '') throw new Error('faketime does not tell where its library is');
  return path;
}
