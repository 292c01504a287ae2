// Notices that files say something else than before, by reading them.
//
// Fact: mounted secrets change by swapping a symbolic link two folders up, and editors replace files; neither shows
// reliably as an event on the path. Choice: the few small files are read some four times a second and compared by
// content. A change counts once two looks in a row agree: a list of authorities that a writer has half done is valid
// PEM, and acting on it would throw out those in the other half. A look begins some time after the one before has
// ended: on a busy machine two would else read one after the other, and agree on what is half done.
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock, Timer } from './clock.ts';
import { errno } from './env.ts';

const INTERVAL_MS = 250;

/** What files or folders of files said at one moment: a digest of each, by its path. */
export type Look = ReadonlyMap<string, string>;

export async function lookAt(paths: readonly string[]): Promise<Look> {
  const look = new Map<string, string>();
  for (const path of paths) {
    look.set(path, await digestOf(path));
  }
  return look;
}

/** Of a file, or of the files of a folder with their names; folders in it are not looked into. */
async function digestOf(path: string, inFolder = false): Promise<string> {
  const content = await readFile(path).catch((cause: unknown) => errno(cause));
  if (content === 'EISDIR' && !inFolder) {
    const names = await readdir(path).catch(() => []);
    const digests = await Promise.all(names.sort().map((name) => digestOf(join(path, name), true)));
    return digestOfBytes(JSON.stringify([names, digests]));
  }
  return typeof content === 'string' ? 'missing' : digestOfBytes(content);
}

const digestOfBytes = (content: Buffer | string): string => createHash('sha256').update(content).digest('hex');

export class FileWatch {
  readonly #paths: readonly string[];
  readonly #changed: () => Promise<void>;
  readonly #clock: Clock;
  #timer: Timer | undefined;
  #stopped = false;
  /** Of the content that was last acted on, and of the last look. */
  #digest: string;
  #looked: string | undefined;
  #checking: Promise<void> = Promise.resolve();

  /**
   * `changed` runs after each change, and never twice at a time. It must not throw. `before` is how the files looked
   * before they were read for their use: what has changed since then is a change.
   */
  constructor(clock: Clock, paths: readonly string[], before: Look, changed: () => Promise<void>) {
    this.#paths = paths;
    this.#digest = digestIn(before, paths);
    this.#changed = changed;
    this.#clock = clock;
    this.#lookOn();
  }

  /** Looks now; with `force` the files count as changed whatever they say. */
  now(force: boolean): Promise<void> {
    return this.#look(force);
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.close();
  }

  #lookOn(): void {
    void this.#look(false).then(() => {
      if (this.#stopped) return;
      this.#timer = this.#clock.after(INTERVAL_MS, () => this.#lookOn());
      this.#timer.unref();
    });
  }

  #look(force: boolean): Promise<void> {
    this.#checking = this.#checking.then(async () => {
      const digest = digestIn(await lookAt(this.#paths), this.#paths);
      const settled = digest === this.#looked;
      this.#looked = digest;
      if (!force && (digest === this.#digest || !settled)) return;
      this.#digest = digest;
      await this.#changed();
    });
    return this.#checking;
  }
}

const digestIn = (look: Look, paths: readonly string[]): string => paths.map((path) => look.get(path)).join(' ');
