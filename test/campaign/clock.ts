// The clock of the queue's servers. libfaketime reads the clock's offset from a file once a second.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { clockFrom } from '../support/redis.ts';
import { temporaryFolder } from '../support/scope.ts';

export class Clock {
  /** This number is odd from the moment the clock is set until the server has the new time. */
  moves = 0;
  readonly environment: Readonly<Record<string, string>>;
  readonly #file = join(temporaryFolder('ingest-clock-'), 'offset');

  readonly startS: number;

  constructor(startS: number) {
    this.startS = startS;
    this.#write(startS);
    this.environment = {
      ...clockFrom(this.#file),
      // With these settings, libfaketime reads the file once a second instead of at every call.
      FAKETIME_NO_CACHE: '0',
      FAKETIME_CACHE_DURATION: '1',
    };
  }

  /** The server reads the offset later. Calling `arrived` records that the server has the new time. */
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
