// The one error that the library throws on purpose. Its message is one line that names the fault and what to do.

/** Each of them ends the program with exit code 2, without a document. */
export type FailureCode = 'usage' | 'config' | 'io' | 'input' | 'baseline' | 'gate';

/** An expected failure of a verb. */
export class ReportFailure extends Error {
  readonly code: FailureCode;

  constructor(code: FailureCode, message: string, cause?: unknown) {
    super(oneLine(message), { cause });
    this.name = 'ReportFailure';
    this.code = code;
  }
}

export const usageFailure = (message: string): ReportFailure => new ReportFailure('usage', message);

/** The work was cancelled by its AbortSignal; nothing was written. */
export class Interrupted extends Error {
  constructor() {
    super('interrupted');
    this.name = 'Interrupted';
  }
}

export function throwIfInterrupted(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw new Interrupted();
}

/** The system's error code ("ENOENT") or undefined. */
export function errnoOf(error: unknown): string | undefined {
  const code: unknown = error instanceof Error && 'code' in error ? error.code : undefined;
  return typeof code === 'string' ? code : undefined;
}

/** The text of anything that was thrown, on one line. */
export function messageOf(error: unknown): string {
  if (error instanceof Error) return oneLine(error.message);
  return oneLine(typeof error === 'string' ? error : String(error));
}

/** Line breaks and runs of blanks become one space. */
export const oneLine = (text: string): string => text.replace(/\s+/gu, ' ').trim();

/** A failure for an input or output operation on a named file. */
export function ioFailure(what: string, name: string, error: unknown): ReportFailure {
  const errno = errnoOf(error);
  const reason = errno === 'EISDIR' ? 'it is a directory' : (errno ?? messageOf(error));
  return new ReportFailure('io', `cannot ${what} ${name}: ${reason}`, error);
}
