// Reloads files when their content changes. If the new content is refused, the last good content stays in use.
//
// A mounted secret changes through a symbolic link two folders up, and editors replace files, so file system events
// are not reliable. Twice a second, the few small files are therefore read unless their metadata shows that they have
// not changed for a while. A change takes effect only after two identical reads: half of a list of authorities is valid
// PEM, and using it would close the connections of producers whose authorities are in the other half.
import { hash } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { SYSTEM, type Clock, type Timer } from './clock.ts';
import type { Log } from './log.ts';
import { messageOf } from './message-of.ts';

const INTERVAL_MS = 500;
/** Time between the two identical reads of changed files. */
const SETTLING_MS = 250;
/** Two changes can have the same time only if they are closer together than this. */
const TIME_STEP_MS = 2_000;
/** Refused files are tried again after this time. For example, a revocation list can become valid without a change. */
const RETRY_MS = 30_000;

export interface Reloading<T> {
  /** A label in metrics and a field in log lines. */
  readonly kind: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly onChange: (value: T) => void;
  /** Called with `false` if the files were refused, and with `true` after a reload. */
  readonly onOutcome: (current: boolean) => void;
  /** Returns additional fields for the log line about a reload. */
  readonly fields?: ((value: T) => object) | undefined;
}

/** `lastGood` is undefined during startup. If the promise rejects, the files are refused. */
type Parse<T> = (lastGood: T | undefined) => Promise<T>;

/** Reads files or folders of files. Rejects if `parse` does. */
export async function reloadable<T>(paths: readonly string[], parse: Parse<T>): Promise<Reloadable<T>> {
  const digest = await digestOf(paths, new Map());
  return new Reloadable(paths, parse, digest, await parse(undefined));
}

export class Reloadable<T> {
  readonly #paths: readonly string[];
  readonly #parse: Parse<T>;
  #value: T;
  /** The digest of the content that `parse` read last. */
  #digest: string;
  /** The digest of the content at the latest check. */
  #read: string | undefined;
  /** True if the last two checks read the same content. */
  #settled = false;
  readonly #unchanged: Unchanged = new Map();
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

  get value(): T {
    return this.#value;
  }

  /** Starts watching the files. Changes made since the first read are detected too. */
  watch(reloading: Reloading<T>): void {
    this.#reloading = reloading;
    const check = async (): Promise<void> => {
      await this.#check(false);
      this.#timer = this.#reloading?.clock.after(this.#settled ? INTERVAL_MS : SETTLING_MS, () => void check());
      this.#timer?.unref();
    };
    void check();
  }

  /** Reloads the files even if they have not changed. */
  reload(): Promise<void> {
    return this.#check(true);
  }

  stop(): void {
    this.#reloading = undefined;
    this.#timer?.close();
  }

  #check(forced: boolean): Promise<void> {
    this.#checking = this.#checking.then(async () => {
      const digest = await digestOf(this.#paths, this.#unchanged);
      this.#settled = digest === this.#read;
      this.#read = digest;
      const isChanged = forced || (this.#settled && digest !== this.#digest);
      if (this.#reloading === undefined || (!isChanged && this.#reloading.clock.ms() < this.#retryAtMs)) return;
      this.#digest = digest;
      await this.#load(this.#reloading, isChanged);
    });
    return this.#checking;
  }

  /** Loads the files. If a retry fails, nothing is reported. */
  async #load({ kind, clock, log, onChange, onOutcome, fields }: Reloading<T>, isChanged: boolean): Promise<void> {
    try {
      const value = await this.#parse(this.#value);
      onChange(value);
      this.#value = value;
      this.#retryAtMs = Number.POSITIVE_INFINITY;
      onOutcome(true);
      log.info({ kind, ...fields?.(value) }, 'files reloaded and in use');
    } catch (cause) {
      this.#retryAtMs = clock.ms() + RETRY_MS;
      if (!isChanged) return;
      onOutcome(false);
      log.error({ kind, reason: messageOf(cause) }, 'changed files refused; the last good ones stay in use');
    }
  }
}

/** The digests of files whose metadata identifies their content, by path. */
type Unchanged = Map<string, { readonly version: string; readonly digest: string }>;

const digestOf = async (paths: readonly string[], unchanged: Unchanged): Promise<string> =>
  (await Promise.all(paths.map((path) => contentDigest(path, unchanged)))).join(' ');

/** Returns the digest of a file, or of the names and contents of the files in a folder. Subfolders are not read. */
async function contentDigest(path: string, unchanged: Unchanged, inFolder = false): Promise<string> {
  const found = await stat(path, { bigint: true }).catch(() => undefined);
  if (found?.isDirectory() === true && !inFolder) {
    const names = (await readdir(path).catch(() => [])).sort();
    const digests = await Promise.all(names.map((name) => contentDigest(join(path, name), unchanged, true)));
    return hash('sha256', JSON.stringify([names, digests]));
  }
  const version = found && [found.dev, found.ino, found.size, found.mtimeNs, found.ctimeNs].join(' ');
  const known = unchanged.get(path);
  if (known !== undefined && known.version === version) return known.digest;
  unchanged.delete(path);
  const content = await readFile(path).catch(() => undefined);
  if (content === undefined) return 'missing';
  const digest = hash('sha256', content);
  if (found !== undefined && version !== undefined && SYSTEM.clock.epochMs() - Number(found.ctimeMs) > TIME_STEP_MS)
    unchanged.set(path, { version, digest });
  return digest;
}
