// Reloads files when their content changes. If the new content is refused, the last good content stays in use.
//
// A mounted secret changes through a symbolic link two folders up, and editors replace files, so file system events
// are not reliable. Every 0.5 s, the few small files are therefore read unless their metadata shows that they have
// not changed for a while. A change takes effect only after two identical reads: half of a list of authorities is valid
// PEM, and using it would close the connections of producers whose authorities are in the other half.
import { hash } from 'node:crypto';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { SYSTEM, type Clock, type Timer } from './clock.ts';
import type { Log } from './log.ts';
import { messageOf } from './message-of.ts';
import { readOperatorFile } from './operator-file.ts';

/** Checks are made at multiples of this, as by `Clock.every`, so that an idle process wakes up less often. */
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

export interface Reloadable<T> {
  readonly value: T;
  /** Starts watching the files. Changes made since the first read are detected too. */
  watch(reloading: Reloading<T>): void;
  /** Reloads the files even if they have not changed. */
  reload(): Promise<void>;
  stop(): void;
}

/** Reads files or folders of files. Rejects if `parse` does. Later, `parse` gets the last good value. */
export async function reloadable<T>(
  paths: readonly string[],
  parse: (lastGood: T | undefined) => Promise<T>,
): Promise<Reloadable<T>> {
  let { digest } = await contentOf(paths);
  let value = await parse(undefined);
  let content: Content | undefined;
  let isSettled = false;
  let retryAtMs = Number.POSITIVE_INFINITY;
  let watching: Reloading<T> | undefined;
  let timer: Timer | undefined;
  let checking = Promise.resolve();

  /** If a retry fails, nothing is reported. */
  async function check(isForced: boolean): Promise<void> {
    const found = await contentOf(paths, content);
    isSettled = found.digest === content?.digest;
    content = found;
    const isChanged = isForced || (isSettled && found.digest !== digest);
    if (watching === undefined) return;
    const { kind, clock, log, onChange, onOutcome, fields } = watching;
    if (!isChanged && clock.ms() < retryAtMs) return;
    digest = found.digest;
    try {
      const next = await parse(value);
      onChange(next);
      value = next;
      retryAtMs = Number.POSITIVE_INFINITY;
      onOutcome(true);
      log.info({ kind, ...fields?.(next) }, 'files reloaded and in use');
    } catch (cause) {
      retryAtMs = clock.ms() + RETRY_MS;
      if (!isChanged) return;
      onOutcome(false);
      log.error({ kind, reason: messageOf(cause) }, 'changed files refused; the last good ones stay in use');
    }
  }

  const checkNext = (isForced: boolean): Promise<void> => (checking = checking.then(() => check(isForced)));

  async function repeat(): Promise<void> {
    await checkNext(false);
    if (watching === undefined) return;
    const { clock } = watching;
    timer = clock.after(isSettled ? INTERVAL_MS - (clock.ms() % INTERVAL_MS) : SETTLING_MS, () => void repeat());
    timer.unref();
  }

  return {
    get value() {
      return value;
    },
    watch: (reloading) => {
      watching = reloading;
      void repeat();
    },
    reload: () => checkNext(true),
    stop: () => {
      watching = undefined;
      timer?.close();
    },
  };
}

interface Content {
  readonly metadata: string;
  readonly digest: string;
}

/** Reads files, and the names and contents of the files in folders, unless they are the `known` ones. */
async function contentOf(paths: readonly string[], known?: Content): Promise<Content> {
  const found = (await Promise.all(paths.map(filesAt))).flat();
  const sinceMs = SYSTEM.clock.epochMs() - TIME_STEP_MS;
  // The metadata of a file that changed just now does not prove its content, so it differs each time.
  const isNew = found.some(({ changedMs }) => changedMs >= sinceMs);
  const metadata = JSON.stringify([found.map(({ file, facts }) => [file, facts]), isNew && SYSTEM.clock.ms()]);
  if (known?.metadata === metadata) return known;
  const contents = found.map(async ({ file }) => [file, await digestOf(file).catch(() => '')]);
  return { metadata, digest: hash('sha256', JSON.stringify(await Promise.all(contents))) };
}

const digestOf = async (file: string): Promise<string> => hash('sha256', await readOperatorFile(file));

async function filesAt(path: string) {
  const found = await statusOf(path);
  const names = found.isFolder ? await readdir(path).catch(() => undefined) : undefined;
  return names === undefined ? [found] : Promise.all(names.sort().map((name) => statusOf(join(path, name))));
}

async function statusOf(file: string) {
  const one = await stat(file, { bigint: true }).catch(() => undefined);
  const facts = one && [one.dev, one.ino, one.size, one.mtimeNs, one.ctimeNs].join(' ');
  return { file, facts, isFolder: one?.isDirectory() === true, changedMs: Number(one?.ctimeMs ?? 0) };
}
