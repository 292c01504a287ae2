// FILE.position records the line after which the next run continues. The file is written about once a second and when
// a run ends, and removed when all events are settled (isForGood).
//
// Invariant: all events up to that line were settled. Later events may be settled too. The next run sends those
// again, and the gateway answers "duplicate". The digest of the line shows whether the input file has changed.
import { createHash } from 'node:crypto';
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import type { Clock } from '../process/clock.ts';
import { readOperatorFileOnce } from '../process/operator-file.ts';
import type { Line } from './lines.ts';
import { OWNER_ONLY } from './journal-format.ts';

const WRITE_INTERVAL_MS = 1_000;

interface Written {
  readonly url: string;
  readonly line: number;
  readonly sha256: string;
}

/** The name of the file. */
export const positionOf = (file: string): string => `${file}.position`;

const digest = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

export class Position {
  readonly path: string;
  readonly #url: string;
  readonly #clock: Clock;
  readonly #before: Written | undefined;
  /** The events that were begun, in file order, starting with the first unsettled one. */
  readonly #begun: { readonly line: Line; isSettled: boolean }[] = [];
  #last: Line | undefined;
  /** True after an event that is not settled in this run, so that the position cannot pass it. */
  #isFinal = false;
  #writtenMs: number;

  /** Ignores the position of a run that sent to another gateway. */
  constructor(file: string, url: string, clock: Clock) {
    this.path = positionOf(file);
    this.#url = url;
    this.#clock = clock;
    this.#writtenMs = clock.ms();
    this.#before = writtenAt(this.path, url);
  }

  /** The last line that this run skips, or 0 if it skips none. */
  get line(): number {
    return this.#before?.line ?? 0;
  }

  /** Returns true if an earlier run settled the event, and `changed` if the file has changed since that run. */
  passed({ number, bytes }: Line): boolean | 'changed' {
    if (this.#before === undefined || number > this.#before.line) return false;
    return number < this.#before.line || digest(bytes) === this.#before.sha256 || 'changed';
  }

  /** True if every event that was begun is settled. */
  get isComplete(): boolean {
    return !this.#isFinal && this.#begun.length === 0;
  }

  /** Registers an event, in file order. The caller must call the returned function when the event has a result. */
  begin(line: Line): (isSettled: boolean) => void {
    if (this.#isFinal) return () => undefined;
    const begun = { line, isSettled: false };
    this.#begun.push(begun);
    return (isSettled) => {
      begun.isSettled = isSettled;
      if (!isSettled && this.#begun.includes(begun)) {
        this.#begun.length = this.#begun.indexOf(begun);
        this.#isFinal = true;
      }
      while (this.#begun[0]?.isSettled === true) this.#last = this.#begun.shift()?.line;
      if (this.#clock.ms() - this.#writtenMs >= WRITE_INTERVAL_MS) this.write();
    };
  }

  /** Returns the error if the file cannot be written, as in a read-only folder. */
  write(): unknown {
    this.#writtenMs = this.#clock.ms();
    if (this.#last === undefined) return undefined;
    const { number, bytes } = this.#last;
    const text: Written = { url: this.#url, line: number, sha256: digest(bytes) };
    try {
      // The file is created, so that nothing is written through a link.
      rmSync(`${this.path}.new`, { force: true });
      writeFileSync(`${this.path}.new`, `${JSON.stringify(text)}\n`, { mode: OWNER_ONLY, flag: 'wx' });
      renameSync(`${this.path}.new`, this.path);
      return undefined;
    } catch (cause) {
      return cause;
    }
  }

  remove(): void {
    rmSync(this.path, { force: true });
  }
}

function writtenAt(path: string, url: string): Written | undefined {
  try {
    const written = JSON.parse(readOperatorFileOnce(path).toString()) as Written;
    return written.url === url && Number.isInteger(written.line) ? written : undefined;
  } catch {
    return undefined;
  }
}
