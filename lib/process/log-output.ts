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
const EXIT_FLUSH_MS = 3_000;

/** `lineOf` formats a line, which pino writes as JSON. */
export function logOutput(lineOf: (json: string) => string) {
  const fd = ownStdout();
  /** The first line may have been written in part, so it is never dropped. */
  let waiting: Buffer[] = [];
  let bytes = 0;
  let lost = 0;
  let retry: Timer | undefined;

  const add = (text: string): Buffer => {
    const line = Buffer.from(lineOf(text));
    bytes += line.length;
    return line;
  };

  function send(): boolean {
    for (let line = waiting[0]; line !== undefined; line = waiting[0]) {
      try {
        const count = writeSync(fd, line);
        bytes -= count;
        if (count < line.length) waiting[0] = line.subarray(count);
        else if (lost === 0) waiting.shift();
        else waiting[0] = lossLine();
      } catch (cause) {
        if ((cause as NodeJS.ErrnoException).code === 'EAGAIN') return false;
        // The reader is gone, or the disk is full. The next line is an attempt again.
        lost += waiting.length;
        [waiting, bytes] = [[], 0];
      }
    }
    return true;
  }

  function lossLine(): Buffer {
    const time = new Date(clock.epochMs()).toISOString();
    const msg = `standard output could not be written in time: ${lost} log lines are lost`;
    const fields = { level: 'warn', time, pid: process.pid, name: process.title, lost, msg };
    lost = 0;
    return add(`${JSON.stringify(fields)}\n`);
  }

  function sendAgain(): void {
    retry = send() ? undefined : clock.after(RETRY_MS, sendAgain);
    retry?.unref();
  }

  // Waits for the reader for a limited time, because the process ends.
  process.on('exit', () => {
    const untilMs = clock.ms() + EXIT_FLUSH_MS;
    const sleeper = new Int32Array(new SharedArrayBuffer(4));
    while (!send() && clock.ms() < untilMs) Atomics.wait(sleeper, 0, 0, 5);
  });

  return {
    write(json: string): void {
      waiting.push(add(json));
      while (bytes > WAITING_BYTES_MAX && waiting.length > 2) {
        bytes -= waiting.splice(1, 1)[0]?.length ?? 0;
        lost += 1;
      }
      if (retry === undefined) sendAgain();
    },
  };
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
