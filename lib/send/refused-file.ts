// The refused events of a run and their answers, one JSON object on each line. The file is created when the first
// event is refused. Existing files are never changed.
import { closeSync, existsSync, openSync, unlinkSync } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import type { InputEvent } from './input.ts';
import type { SendResult } from './sender.ts';
import { bodyMembers, OWNER_ONLY } from './journal-format.ts';

/** Returns `name`, or the first of `name.2`, `name.3` … that does not exist. */
export function freeName(name: string): string {
  if (!existsSync(name)) return name;
  for (let number = 2; ; number += 1) if (!existsSync(`${name}.${number}`)) return `${name}.${number}`;
}

/** Returns the reason why `path` cannot be created, or undefined. Creates and removes the file to find out. */
export function whyUnwritable(path: string): string | undefined {
  try {
    closeSync(openSync(path, 'wx', OWNER_ONLY));
    unlinkSync(path);
    return undefined;
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    return code === 'EEXIST'
      ? 'it exists already, and refused files are never overwritten'
      : `it cannot be written (${code})`;
  }
}

export class RefusedFile {
  readonly path: string;
  #file: Promise<FileHandle> | undefined;

  constructor(path: string) {
    this.path = path;
  }

  get written(): boolean {
    return this.#file !== undefined;
  }

  async add({ event, code, status, answer }: SendResult<InputEvent> & { kind: 'refused' }): Promise<void> {
    const file = await (this.#file ??= open(this.path, 'wx', OWNER_ONLY));
    const row = { line: event.originalNumber, code, status, answer, ...bodyMembers(event.bytes) };
    await file.appendFile(`${JSON.stringify(row)}\n`);
  }

  async close(): Promise<void> {
    await (await this.#file)?.close();
  }
}
