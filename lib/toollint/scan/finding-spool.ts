// Findings on their way into a report. The header stands before them in the document and is known only after the last
// one, so they wait: in memory while they are few, then in a temporary file. Order in, order out.
import { createReadStream } from 'node:fs';
import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ioFailure } from '../document/failure.ts';
import type { Finding } from '../document/report-schema.ts';
import { findingLine } from '../document/report-writer.ts';

const MEMORY_UNITS_MAX = 4 << 20;

/** Holds findings; `close` removes what it left on disk. */
export class FindingSpool {
  #lines: string[] = [];
  #units = 0;
  #folder: string | undefined;
  #file: FileHandle | undefined;

  async add(findings: readonly Finding[]): Promise<void> {
    for (const finding of findings) {
      const line = findingLine(finding);
      this.#lines.push(line);
      this.#units += line.length;
    }
    if (this.#units > MEMORY_UNITS_MAX) await this.#spill();
  }

  /** Everything that was added, in batches; may be called again. */
  async *findings(): AsyncGenerator<readonly Finding[]> {
    for await (const lines of this.findingLines()) yield lines.map((line) => JSON.parse(line) as Finding);
  }

  /** The same as the lines of a document. */
  async *findingLines(): AsyncGenerator<readonly string[]> {
    if (this.#file === undefined) yield this.#lines;
    else {
      await this.#spill();
      yield* this.#fromDisk();
    }
  }

  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = undefined;
    if (this.#folder !== undefined) await rm(this.#folder, { recursive: true, force: true });
  }

  async #spill(): Promise<void> {
    if (this.#lines.length === 0) return;
    const text = `${this.#lines.join('\n')}\n`;
    this.#lines = [];
    this.#units = 0;
    try {
      this.#folder ??= await mkdtemp(join(tmpdir(), 'toollint-'));
      this.#file ??= await open(join(this.#folder, 'findings'), 'a');
      await this.#file.writeFile(text);
    } catch (cause) {
      throw ioFailure('keep findings in', tmpdir(), cause);
    }
  }

  async *#fromDisk(): AsyncGenerator<readonly string[]> {
    let rest = '';
    for await (const chunk of createReadStream(join(this.#folder ?? '', 'findings'), {
      encoding: 'utf8',
      highWaterMark: 1 << 18,
    })) {
      const lines = (rest + (chunk as string)).split('\n');
      rest = lines.pop() ?? '';
      yield lines;
    }
  }
}
