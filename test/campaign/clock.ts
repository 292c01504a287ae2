// The clock of the queue's servers, which the campaign sets: libfaketime reads how far it is off from a file, once a
// second.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { clockFrom } from '../support/redis.ts';
import { temporaryFolder } from '../support/scope.ts';

export class Clock {
  /** Counts up when it is about to be moved, and when the server has the new time: odd in between. */
  moves = 0;
  readonly environment: Readonly<Record<string, string>>;
  readonly #file = join(temporaryFolder('ingest-clock-'), 'offset');

  /** Where it stands at the start, in seconds from the true time. */
  readonly startS: number;

  constructor(startS: number) {
    this.startS = startS;
    this.#write(startS);
    this.environment = {
      ...clockFrom(this.#file),
      // In seconds: a change is seen after as long, and the file is not read anew for every command.
      FAKETIME_NO_CACHE: '0',
      FAKETIME_CACHE_DURATION: '1',
    };
  }

  /** Off the true time by so many seconds, as soon as the server reads it; `arrived` says that it has. */
  set(seconds: number): void {
    this.moves += 1;
    this.#write(seconds);
  }

  arrived(): void {
    this.moves += 1;
  }

  #write(seconds: number): void {
    writeFileSync(this.#file, `${seconds < 0 ? '-' : '+'}${Math.abs(seconds)}\n`);
  }
}
