// run.json in the state folder of `make ingest-run` has the URIs of the queue and the warehouse and the URL of the
// gateway, so that ingest-admin and ingest-send find them when they are run in another terminal.
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const KEYS = ['INGEST_QUEUE_URI', 'INGEST_WAREHOUSE_URI'] as const;

export type RunFile = Readonly<Partial<Record<(typeof KEYS)[number] | 'gatewayUrl', unknown>>>;

/**
 * Returns the content of run.json; nothing if it is missing. Ignores a file that another user may have written, because
 * it decides where erasures and events go.
 */
export function readRunFile(
  { INGEST_STATE_DIR: folder = '.ingest' }: NodeJS.ProcessEnv,
  warn: (text: string) => void,
): RunFile {
  const path = join(resolve(folder), 'run.json');
  let file: number | undefined;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const { uid, mode, nlink } = fstatSync(file);
    if (uid === process.getuid?.() && (mode & 0o022) === 0 && nlink === 1)
      return (JSON.parse(readFileSync(file, 'utf8')) as RunFile | null) ?? {};
    warn(`warning: ${path} was ignored: expected a file that belongs to you and that only you can write`);
  } catch {
    // The file is missing, or not JSON.
  } finally {
    if (file !== undefined) closeSync(file);
  }
  return {};
}

/** Adds the URIs of run.json, unless the environment already names a queue or a warehouse. */
export function withRunning(environment: NodeJS.ProcessEnv, warn: (text: string) => void): NodeJS.ProcessEnv {
  if (KEYS.some((key) => environment[key] !== undefined || environment[`${key}_FILE`] !== undefined))
    return environment;
  const running = readRunFile(environment, warn);
  const uris = KEYS.flatMap((key) => (typeof running[key] === 'string' ? [[key, running[key]] as const] : []));
  return { ...environment, ...Object.fromEntries(uris) };
}
