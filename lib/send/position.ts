// FILE.position: the line at which an interrupted run continues. It is written once a second and at the end of the run,
// and removed when the run is complete.
//
// Invariant: all events up to that line were settled. Later events may be settled too. The next run sends those again,
// at most as many as were in flight, and the gateway answers "duplicate". The digest of the line detects another file.
import { createHash } from 'node:crypto';
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import type { Clock } from '../process/clock.ts';

const WRITE_INTERVAL_MS = 1_000;

/** A line with an event. */
export interface FileLine {
  /** Counts from 1 and includes blank lines. */
  readonly line: number;
  readonly bytes: Buffer;
}

interface Written {
  readonly url: string;
  readonly line: number;
  readonly sha256: string;
}

interface Begun {
  readonly at: FileLine;
  settled: boolean;
}

const digest = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

export class Position {
  readonly path: string;
  readonly #url: string;
  readonly #before: Written | undefined;
  /** In the order of the file, from the first unsettled event. */
  readonly #begun: Begun[] = [];
  #last: FileLine | undefined;
  readonly #clock: Clock;
  #writtenMs: number;

  /** Ignores the file of a run to another gateway. */
  constructor(file: string, url: string, clock: Clock) {
    this.#clock = clock;
    this.#writtenMs = clock.ms();
    this.path = `${file}.position`;
    this.#url = url;
    this.#before = writtenAt(this.path, url);
  }

  /** The last line that this run skips, or 0. */
  get line(): number {
    return this.#before?.line ?? 0;
  }

  /** True if an earlier run settled the event. `changed` if the file is not the one of that run. */
  passed({ line, bytes }: FileLine): boolean | 'changed' {
    if (this.#before === undefined || line > this.#before.line) return false;
    return line < this.#before.line || digest(bytes) === this.#before.sha256 || 'changed';
  }

  /** Must be called in the order of the file. Call the returned function when the event is settled. */
  begin(at: FileLine): () => void {
    const begun = { at, settled: false };
    this.#begun.push(begun);
    return () => {
      begun.settled = true;
      while (this.#begun[0]?.settled === true) this.#last = this.#begun.shift()?.at;
      if (this.#clock.ms() - this.#writtenMs >= WRITE_INTERVAL_MS) this.write();
    };
  }

  write(): void {
    this.#writtenMs = this.#clock.ms();
    if (this.#last === undefined) return;
    const { line, bytes } = this.#last;
    const text: Written = { url: this.#url, line, sha256: digest(bytes) };
    writeFileSync(`${this.path}.new`, `${JSON.stringify(text)}\n`, { mode: 0o600 });
    renameSync(`${this.path}.new`, this.path);
  }

  remove(): void {
    rmSync(this.path, { force: true });
  }
}

function writtenAt(path: string, url: string): Written | undefined {
  try {
    const written = JSON.parse(readFileSync(path, 'utf8')) as Written;
    return written.url === url && Number.isInteger(written.line) ? written : undefined;
  } catch {
    return undefined;
  }
}
