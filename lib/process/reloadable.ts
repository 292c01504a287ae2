// Files that are read at the start and again whenever their content changes. The last good content stays in use.
//
// Fact: mounted secrets change by swapping a symbolic link two folders up, and editors replace files; neither shows
// reliably as an event on the path. Choice: the few small files are read four times a second and compared by content.
// A change applies once two reads in a row agree, and a read begins some time after the one before has ended: a list of
// authorities that is half written is valid PEM, and using it would close the connections of the other half.
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock, Timer } from './clock.ts';
import { errno } from './env.ts';
import type { Log } from './log.ts';
import { messageOf } from './message-of.ts';

const INTERVAL_MS = 250;
/** Files that were refused may become good without a change: a revocation list that is valid from a later time on. */
const RETRY_MS = 30_000;

/** How the content of changed files gets into use. */
export interface Reloading<T> {
  /** Label value of the metrics, and a field of the log lines. */
  readonly kind: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly onChange: (value: T) => void;
  /** Called after each attempt: `false` if the files were refused. */
  readonly onOutcome: (current: boolean) => void;
  /** More fields for the log line of a success. */
  readonly fields?: ((value: T) => object) | undefined;
}

/** `lastGood` is undefined at the start. A rejection refuses the files. */
export type Parse<T> = (lastGood: T | undefined) => Promise<T>;

/** Reads `paths`, files or folders of files, by `parse`. Rejects as `parse` does. */
export async function reloadable<T>(paths: readonly string[], parse: Parse<T>): Promise<Reloadable<T>> {
  const digest = await digestOf(paths);
  return new Reloadable(paths, parse, digest, await parse(undefined));
}

export class Reloadable<T> {
  readonly #paths: readonly string[];
  readonly #parse: Parse<T>;
  #value: T;
  /** Of the content that was parsed last, and of the content that was read last. */
  #digest: string;
  #read: string | undefined;
  #retryAtMs = Number.POSITIVE_INFINITY;
  #reloading: Reloading<T> | undefined;
  #timer: Timer | undefined;
  #checking: Promise<void> = Promise.resolve();

  constructor(paths: readonly string[], parse: Parse<T>, digest: string, value: T) {
    this.#paths = paths;
    this.#parse = parse;
    this.#digest = digest;
    this.#value = value;
  }

  /** The last good content. */
  get value(): T {
    return this.#value;
  }

  /** Watches the files. A change since they were first read is a change too. */
  watch(reloading: Reloading<T>): void {
    this.#reloading = reloading;
    this.#goOn();
  }

  /** Loads the files again, changed or not. */
  reload(): Promise<void> {
    return this.#check(true);
  }

  stop(): void {
    this.#reloading = undefined;
    this.#timer?.close();
  }

  #goOn(): void {
    void this.#check(false).then(() => {
      this.#timer = this.#reloading?.clock.after(INTERVAL_MS, () => this.#goOn());
      this.#timer?.unref();
    });
  }

  #check(forced: boolean): Promise<void> {
    this.#checking = this.#checking.then(async () => {
      const digest = await digestOf(this.#paths);
      const settled = digest === this.#read;
      this.#read = digest;
      const reloading = this.#reloading;
      if (reloading === undefined) return;
      const changed = forced || (settled && digest !== this.#digest);
      if (!changed && reloading.clock.ms() < this.#retryAtMs) return;
      this.#digest = digest;
      await this.#load(reloading, changed);
    });
    return this.#checking;
  }

  /** A retry is silent unless it succeeds. */
  async #load({ kind, clock, log, onChange, onOutcome, fields }: Reloading<T>, changed: boolean): Promise<void> {
    try {
      const value = await this.#parse(this.#value);
      onChange(value);
      this.#value = value;
      this.#retryAtMs = Number.POSITIVE_INFINITY;
      onOutcome(true);
      log.info({ kind, ...fields?.(value) }, 'files reloaded and in use');
    } catch (cause) {
      this.#retryAtMs = clock.ms() + RETRY_MS;
      if (!changed) return;
      onOutcome(false);
      log.error({ kind, reason: messageOf(cause) }, 'changed files refused; the last good ones stay in use');
    }
  }
}

const digestOf = async (paths: readonly string[]): Promise<string> =>
  (await Promise.all(paths.map((path) => contentDigest(path)))).join(' ');

/** Of a file, or of the files of a folder with their names; subfolders are not read. */
async function contentDigest(path: string, inFolder = false): Promise<string> {
  const content = await readFile(path).catch((cause: unknown) => errno(cause));
  if (content === 'EISDIR' && !inFolder) {
    const names = await readdir(path).catch(() => []);
    const digests = await Promise.all(names.sort().map((name) => contentDigest(join(path, name), true)));
    return hashOf(JSON.stringify([names, digests]));
  }
  return typeof content === 'string' ? 'missing' : hashOf(content);
}

const hashOf = (content: Buffer | string): string => createHash('sha256').update(content).digest('hex');
