// Reloads files when their content changes. If the new content is refused, the last good content stays in use.
//
// A mounted secret changes through a symbolic link two folders up, and editors replace files, so file system events
// are not reliable. Every 0.5 s, the few small files are therefore read unless their metadata shows that they have
// not changed for a while. A change takes effect only after two identical reads: half of a list of authorities is valid
// PEM, and using it would close the connections of producers whose authorities are in the other half.
import type { Clock, Timer } from './clock.ts';
import type { Log } from './log.ts';
import { messageOf } from './message-of.ts';
import { readOperatorFile, snapshotOf, type ReadFile, type Snapshot } from './operator-file.ts';

/** Checks are made at multiples of this, as by `Clock.every`, so that an idle process wakes up less often. */
const INTERVAL_MS = 500;
/** Time between the two identical reads of changed files. */
const SETTLING_MS = 250;
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

/**
 * Reads files or folders of files. Rejects if `parse` does. `read` returns the bytes that were compared, even if the
 * file has changed since. Later, `parse` gets the last good value.
 */
export async function reloadable<T>(
  paths: readonly string[],
  parse: (read: ReadFile, lastGood?: T) => Promise<T>,
): Promise<Reloadable<T>> {
  const first = await snapshotOf(paths);
  let { digest } = first;
  let value = await parse(first.read);
  let snapshot: Snapshot | undefined;
  let isSettled = false;
  let retryAtMs = Number.POSITIVE_INFINITY;
  let watching: Reloading<T> | undefined;
  let timer: Timer | undefined;
  let checking = Promise.resolve();

  /** If a retry fails, nothing is reported. */
  async function check(isForced: boolean): Promise<void> {
    const latest = await snapshotOf(paths, snapshot);
    isSettled = latest.digest === snapshot?.digest;
    // Settled bytes are used now, or were used before, so they need no memory.
    snapshot = isSettled ? { ...latest, read: readOperatorFile } : latest;
    const isChanged = isForced || (isSettled && latest.digest !== digest);
    if (watching === undefined) return;
    const { kind, clock, log, onChange, onOutcome, fields } = watching;
    if (!isChanged && clock.ms() < retryAtMs) return;
    digest = latest.digest;
    try {
      const next = await parse(latest.read, value);
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
