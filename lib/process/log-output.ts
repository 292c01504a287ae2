// Writes log lines to standard output without ever waiting for its reader.
//
// Lines that do not fit into the pipe wait in memory, up to a limit; then the oldest are dropped and counted. pino's
// own destination sleeps in the event loop if the pipe is full, or else drops the newest lines, and its last lines
// overtake earlier ones when the process exits.
import { constants, fstatSync, openSync, writeSync } from 'node:fs';
import { SYSTEM, type Timer } from './clock.ts';

const { clock } = SYSTEM;

const STDOUT = 1;
const WAITING_BYTES_MAX = 1 << 20;
const RETRY_MS = 20;
const EXIT_FLUSH_MS = 1_000;

export class LogOutput {
  readonly #lineOf: (json: string) => string;
  readonly #fd = ownStdout();
  /** The first line may have been written in part, so it is never dropped. */
  #waiting: Buffer[] = [];
  #bytes = 0;
  #lost = 0;
  #retry: Timer | undefined;

  constructor(lineOf: (json: string) => string) {
    this.#lineOf = lineOf;
    process.on('exit', () => this.#flush());
  }

  write(json: string): void {
    const line = Buffer.from(this.#lineOf(json));
    this.#waiting.push(line);
    this.#bytes += line.length;
    while (this.#bytes > WAITING_BYTES_MAX && this.#waiting.length > 2) {
      this.#bytes -= this.#waiting.splice(1, 1)[0]?.length ?? 0;
      this.#lost += 1;
    }
    if (this.#retry === undefined) this.#sendAgain();
  }

  #sendAgain(): void {
    this.#retry = this.#send() ? undefined : clock.after(RETRY_MS, () => this.#sendAgain());
    this.#retry?.unref();
  }

  /** Writes as much as the reader takes. Returns true if nothing waits. */
  #send(): boolean {
    for (let line = this.#waiting[0]; line !== undefined; line = this.#waiting[0]) {
      try {
        const count = writeSync(this.#fd, line);
        this.#bytes -= count;
        if (count < line.length) this.#waiting[0] = line.subarray(count);
        else if (this.#lost === 0) this.#waiting.shift();
        else this.#waiting[0] = this.#lossLine();
      } catch (cause) {
        if ((cause as NodeJS.ErrnoException).code === 'EAGAIN') return false;
        // The reader is gone, or the disk is full. The next line is an attempt again.
        this.#lost += this.#waiting.length;
        [this.#waiting, this.#bytes] = [[], 0];
      }
    }
    return true;
  }

  #lossLine(): Buffer {
    const time = new Date(clock.epochMs()).toISOString();
    const msg = `standard output could not be written in time: ${this.#lost} log lines are lost`;
    const fields = { level: 'warn', time, pid: process.pid, name: process.title, lost: this.#lost, msg };
    const line = Buffer.from(this.#lineOf(`${JSON.stringify(fields)}\n`));
    this.#lost = 0;
    this.#bytes += line.length;
    return line;
  }

  /** Waits for the reader for a limited time, because the process ends. */
  #flush(): void {
    const untilMs = clock.ms() + EXIT_FLUSH_MS;
    const sleeper = new Int32Array(new SharedArrayBuffer(4));
    while (!this.#send() && clock.ms() < untilMs) Atomics.wait(sleeper, 0, 0, 5);
  }
}

/**
 * Opens standard output again if it is a pipe or a terminal. Whether a write waits is a property of the open file,
 * which processes share: another one that ends would make this one's writes wait.
 */
function ownStdout(): number {
  try {
    const stat = fstatSync(STDOUT);
    if (!stat.isFIFO() && !stat.isCharacterDevice()) return STDOUT;
    return openSync('/proc/self/fd/1', constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch {
    return STDOUT;
  }
}
