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
  const { digest } = await contentOf(paths);
  return new Reloadable(paths, parse, digest, await parse(undefined));
}

export class Reloadable<T> {
  readonly #paths: readonly string[];
  readonly #parse: Parse<T>;
  #value: T;
  /** The digest of the content that `parse` read last. */
  #digest: string;
  /** The content at the latest check. */
  #content: Content | undefined;
  /** True if the last two checks read the same content. */
  #settled = false;
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
      const content = await contentOf(this.#paths, this.#content);
      const { digest } = content;
      this.#settled = digest === this.#content?.digest;
      this.#content = content;
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

interface Content {
  readonly metadata: string;
  readonly digest: string;
  /** True if the same metadata proves the same content. */
  readonly isOld: boolean;
}

/** Reads files, and the names and contents of the files in folders, unless they are the `known` ones. */
async function contentOf(paths: readonly string[], known?: Content): Promise<Content> {
  const inFolder = (path: string): Promise<string[]> =>
    readdir(path).then(
      (names) => names.sort().map((name) => join(path, name)),
      () => [path],
    );
  const files = (await Promise.all(paths.map(inFolder))).flat();
  const stats = await Promise.all(files.map((file) => stat(file, { bigint: true }).catch(() => undefined)));
  const facts = stats.map((one) => one && [one.dev, one.ino, one.size, one.mtimeNs, one.ctimeNs].join(' '));
  const metadata = JSON.stringify([files, facts]);
  if (known?.isOld === true && known.metadata === metadata) return known;
  const contents = await Promise.all(files.map((file) => readFile(file).catch(() => undefined)));
  const digest = hash('sha256', JSON.stringify([files, contents.map((content) => content && hash('sha256', content))]));
  const newestMs = Math.max(...stats.map((one) => Number(one?.ctimeMs ?? 0)));
  return { metadata, digest, isOld: SYSTEM.clock.epochMs() - newestMs > TIME_STEP_MS };
}
