// The log: one JSON line for each thing that an operator should know, on standard output.
//
// What is never in it: event bodies, credentials, private keys, tokens. Lines that a flood of traffic could repeat go
// through `Throttled`, which lets one through for each interval and says how many it held back.
import { pino, type Logger } from 'pino';

export type Log = Logger;

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** `name` is the program's. Lines are written synchronously, so the last ones before an exit are not lost. */
export function createLog(name: string, level: LogLevel): Log {
  return pino({
    name,
    level,
    base: { pid: process.pid },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
  });
}

/** Lets one line of a kind through for each interval. */
export class Throttled {
  readonly #intervalMs: number;
  #nextMs = 0;
  #heldBack = 0;

  constructor(intervalMs: number) {
    this.#intervalMs = intervalMs;
  }

  /** Calls `write` with the number of calls held back since the last line, or holds this one back. */
  line(write: (heldBack: number) => void): void {
    const now = performance.now();
    if (now < this.#nextMs) {
      this.#heldBack += 1;
      return;
    }
    this.#nextMs = now + this.#intervalMs;
    const heldBack = this.#heldBack;
    this.#heldBack = 0;
    write(heldBack);
  }
}
