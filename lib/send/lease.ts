// A lock file next to the file that it protects. Only one process at a time holds it.
//
// Process ids are not used, because processes in containers that share a volume can have the same id. The lock file
// is created with O_EXCL and contains the boot id of the holder's machine, a random token, and a number that a
// heartbeat increments. If the number does not change for the duration of a lease, the holder is dead.
//
// A holder that is frozen for longer can lose the lease during a write, because another process removes or replaces
// its lock file. The holder therefore calls `isHeld` after each fsync.
import { readFileSync } from 'node:fs';
import { link, open, readFile, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import type { Clock, ClockAndRandom, Timer } from '../process/clock.ts';
import { objectIn, OWNER_ONLY } from './journal-format.ts';

const HEARTBEAT_MS = 300;
const LEASE_MS = 3_000;
/** Applies to a holder on another machine, because network file systems show its heartbeat late. */
const REMOTE_LEASE_MS = 10_000;

type Holder = Readonly<Record<'bootId' | 'token', string>>;

export class Lease {
  readonly #path: string;
  readonly #file: FileHandle;
  readonly #holder: Holder;
  #timer: Timer | undefined;
  #beat = 0;
  #beating = Promise.resolve();

  private constructor(path: string, file: FileHandle, holder: Holder) {
    this.#path = path;
    this.#file = file;
    this.#holder = holder;
  }

  /** Acquires the lease. Rejects if another process holds it, or if `end` aborts while that is unknown. */
  static async take(path: string, { clock, random }: ClockAndRandom, end: AbortSignal): Promise<Lease> {
    const holder = { bootId: bootIdOfMachine(), token: random.bytes(16).toString('hex') };
    for (;;) {
      const file = await open(path, 'wx', OWNER_ONLY).catch((cause: NodeJS.ErrnoException) => {
        if (cause.code !== 'EEXIST') throw cause;
      });
      if (file !== undefined) {
        const lease = new Lease(path, file, holder);
        await lease.#write().catch(async (cause: unknown) => {
          await lease.release();
          throw cause;
        });
        lease.#timer = clock.every(HEARTBEAT_MS, () => {
          // If the write fails, this heartbeat is skipped.
          lease.#beating = lease.#beating.then(() => lease.#write()).catch(() => undefined);
        });
        return lease;
      }
      await removeEnded(path, holder, clock, end);
    }
  }

  isHeld(): Promise<boolean> {
    return isAt(this.#file, this.#path);
  }

  async release(): Promise<void> {
    this.#timer?.close();
    await this.#beating;
    if (await this.isHeld()) await rm(this.#path, { force: true });
    await this.#file.close();
  }

  async #write(): Promise<void> {
    this.#beat += 1;
    // The length is constant, so that a reader never sees part of a record.
    const text = JSON.stringify({ ...this.#holder, beat: this.#beat });
    await this.#file.write(`${text.padEnd(150)}\n`, 0);
  }
}

/** True if the path still refers to the open file. */
export async function isAt(file: FileHandle, path: string): Promise<boolean> {
  const [own, named] = await Promise.all([file.stat(), stat(path).catch(() => undefined)]);
  return named !== undefined && own.ino === named.ino && own.dev === named.dev;
}

/** Removes the lock file if its holder is dead. Rejects if the holder is alive. */
async function removeEnded(path: string, own: Holder, clock: Clock, end: AbortSignal): Promise<void> {
  const text = await textOf(path);
  if (text === undefined) return;
  const bootId = objectIn(text)?.['bootId'] ?? own.bootId;
  const untilMs = clock.ms() + (bootId === own.bootId ? LEASE_MS : REMOTE_LEASE_MS);
  while (clock.ms() < untilMs) {
    await clock.sleep(HEARTBEAT_MS / 2, end);
    end.throwIfAborted();
    const now = await textOf(path);
    if (now === undefined) return;
    if (now !== text) throw new Error(`another process has this journal open (${path})`);
  }
  // If two processes do this at the same time, the slower one may rename the lock file of the faster one. Then it
  // restores that file.
  const moved = `${path}.${own.token}`;
  await rename(path, moved).catch(() => undefined);
  if ((await textOf(moved)) !== text) await link(moved, path).catch(() => undefined);
  await rm(moved, { force: true });
}

const textOf = (path: string): Promise<string | undefined> => readFile(path, 'utf8').catch(() => undefined);

/** Returns Linux's id of the current boot. Other systems have one value for all machines. */
function bootIdOfMachine(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return 'unknown';
  }
}
