// The errors that the library throws deliberately.
import { setImmediate } from 'node:timers/promises';

const PAUSE_INTERVAL_MS = 50;

/** With any of these codes, the program exits with 2 and writes no document. */
export type FailureCode = 'usage' | 'config' | 'io' | 'input' | 'baseline' | 'gate';

export class ReportFailure extends Error {
  readonly code: FailureCode;

  constructor(code: FailureCode, message: string, cause?: unknown) {
    super(oneLine(message), { cause });
    this.name = 'ReportFailure';
    this.code = code;
  }
}

export const usageFailure = (message: string): ReportFailure => new ReportFailure('usage', message);

/** Thrown if the signal fires. Nothing has been written. */
export class Interrupted extends Error {}

export function throwIfInterrupted(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw new Interrupted();
}

export type Pause = () => Promise<void>;

/** Returns a function that lets signals be handled, at most every 50 ms, and throws if one has arrived. */
export function pausesFor(signal?: AbortSignal): Pause {
  let lastMs = performance.now();
  return async () => {
    if (performance.now() - lastMs < PAUSE_INTERVAL_MS) return;
    await setImmediate();
    throwIfInterrupted(signal);
    lastMs = performance.now();
  };
}

export function errnoOf(error: unknown): string | undefined {
  const code: unknown = error instanceof Error && 'code' in error ? error.code : undefined;
  return typeof code === 'string' ? code : undefined;
}

export const messageOf = (error: unknown): string => oneLine(error instanceof Error ? error.message : String(error));

export const oneLine = (text: string): string => text.replace(/\s+/gu, ' ').trim();

export function ioFailure(what: string, name: string, error: unknown): ReportFailure {
  const errno = errnoOf(error);
  const reason = errno === 'EISDIR' ? 'it is a directory' : (errno ?? messageOf(error));
  return new ReportFailure('io', `cannot ${what} ${name}: ${reason}`, error);
}
