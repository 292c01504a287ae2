// The place in a file at which an interrupted run continues: FILE.position, written once a second and at the end,
// removed when the run is complete.
//
// Invariant: every event up to the line that it names was settled. Events after it may have been too; the next run
// sends these again, at most as many as were in flight, and the gateway answers "duplicate". The line's digest shows
// whether the file is the same.
import { createHash } from 'node:crypto';
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import type { Clock } from '../process/clock.ts';

const WRITE_INTERVAL_MS = 1_000;

/** A line of the file, of those that hold an event. */
export interface FileLine {
  /** Counts from 1, empty lines included. */
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
  /** In the file's order, from the first one that is not settled. */
  readonly #begun: Begun[] = [];
  #last: FileLine | undefined;
  readonly #clock: Clock;
  #writtenMs: number;

  /** FILE.position of a run to another gateway is ignored. */
  constructor(file: string, url: string, clock: Clock) {
    this.#clock = clock;
    this.#writtenMs = clock.ms();
    this.path = `${file}.position`;
    this.#url = url;
    this.#before = writtenAt(this.path, url);
  }

  /** The line after which this run begins; 0 if no earlier run was interrupted. */
  get line(): number {
    return this.#before?.line ?? 0;
  }

  /** True if an earlier run settled the event; `changed` if the file differs from that run's. */
  passed({ line, bytes }: FileLine): boolean | 'changed' {
    if (this.#before === undefined || line > this.#before.line) return false;
    return line < this.#before.line || digest(bytes) === this.#before.sha256 || 'changed';
  }

  /** Called in the file's order. The result is called when the event is settled. */
  begin(at: FileLine): () => void {
    const begun = { at, settled: false };
    this.#begun.push(begun);
    return () => {
      begun.settled = true;
      while (this.#begun[0]?.settled === true) this.#last = this.#begun.shift()?.at;
      if (this.#clock.ms() - this.#writtenMs >= WRITE_INTERVAL_MS) this.write();
    };
  }

  /** Throws system errors. */
  write(): void {
    this.#writtenMs = this.#clock.ms();
    if (this.#last === undefined) return;
    const { line, bytes } = this.#last;
    const text: Written = { url: this.#url, line, sha256: digest(bytes) };
    writeFileSync(`${this.path}.new`, `${JSON.stringify(text)}\n`, { mode: 0o600 });
    renameSync(`${this.path}.new`, this.path);
  }

  /** The run is complete. */
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
