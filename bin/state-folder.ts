// The state folder of `make ingest-run`. Only one run may use it at a time, because two Redis servers would corrupt a
// shared append-only file. `run.json` contains the URIs of the queue and the warehouse, so that ingest-admin can find
// them when it is run in another terminal.
import { closeSync, constants, fstatSync, openSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { SYSTEM } from '../lib/process/clock.ts';
import type { Environment } from '../lib/process/read-settings.ts';
import { askOnce } from '../lib/redis/server/ask-once.ts';

const KEYS = ['INGEST_QUEUE_URI', 'INGEST_WAREHOUSE_URI'] as const;

const folderOf = (environment: Environment): string => resolve(environment['INGEST_STATE_DIR'] ?? '.ingest');

/**
 * Adds the URIs of a running `make ingest-run`, unless the environment already names a queue or a warehouse. Ignores a
 * file that another user may have written, because it decides where erasures and events go.
 */
export function withRunning(environment: Environment, warn: (text: string) => void = () => undefined): Environment {
  if (KEYS.some((key) => environment[key] !== undefined || environment[`${key}_FILE`] !== undefined))
    return environment;
  const path = join(folderOf(environment), 'run.json');
  let file: number | undefined;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const { uid, mode, nlink } = fstatSync(file);
    if (uid !== process.getuid?.() || (mode & 0o022) !== 0 || nlink !== 1) {
      warn(`warning: ${path} was ignored: expected a file that belongs to you and that only you can write`);
      return environment;
    }
    const made = JSON.parse(readFileSync(file, 'utf8')) as Environment | null;
    const uris = KEYS.flatMap((key) => (typeof made?.[key] === 'string' ? [[key, made[key]] as const] : []));
    return { ...environment, ...Object.fromEntries(uris) };
  } catch {
    return environment;
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

/** Locks the folder until this process exits. Rejects if another run, or an earlier run's Redis, still uses it. */
export async function holdFolder(folder: string) {
  const path = join(folder, 'run.json');
  // The operating system releases the lock on a SQLite file when the process exits, even after SIGKILL.
  const lock = new DatabaseSync(join(folder, 'run.lock'));
  try {
    lock.exec('BEGIN EXCLUSIVE');
  } catch {
    throw new Error(`another run uses ${folder}: end it, or set INGEST_STATE_DIR to another folder`);
  }
  const { INGEST_QUEUE_URI: uri } = withRunning({ INGEST_STATE_DIR: folder });
  if (uri !== undefined && (await isServing(uri, join(realpathSync(folder), 'redis'))))
    throw new Error(`the Redis of an earlier run still uses ${folder}: end it with redis-cli -u ${uri} shutdown`);
  return {
    /** Writes run.json, which may be world-readable, because its URIs contain no password. */
    publish: (made: Environment): void => {
      rmSync(path, { force: true });
      writeFileSync(path, `${JSON.stringify(made)}\n`, { mode: 0o644, flag: 'wx' });
    },
    release: (): void => {
      rmSync(path, { force: true });
      lock.close();
    },
  };
}

/** True if a Redis server at `uri` stores its data in `folder`. Another program may have the port by now. */
async function isServing(uri: string, folder: string): Promise<boolean> {
  const asked = askOnce(SYSTEM, uri, (server) => server.send(['CONFIG', 'GET', 'dir']));
  const reply = await asked.catch(() => undefined);
  return Array.isArray(reply) && reply[1] === folder;
}
