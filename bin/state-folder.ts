// The state folder of `make ingest-run`. One run holds it at a time: two Redis servers that append to one file destroy
// it. `run.json` in it has the settings of the queue and the warehouse that the run made, for ingest-admin in a second
// terminal.
import { readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

type Environment = Readonly<Record<string, string | undefined>>;

const KEYS = ['INGEST_QUEUE_URI', 'INGEST_WAREHOUSE_URI'] as const;

const folderOf = (environment: Environment): string => resolve(environment['INGEST_STATE_DIR'] ?? '.ingest');

/** The environment with the settings of the run that holds its state folder, as far as it names no queue itself. */
export function withRunning(environment: Environment): Environment {
  if (KEYS.some((key) => environment[key] !== undefined || environment[`${key}_FILE`] !== undefined))
    return environment;
  try {
    return { ...(JSON.parse(readFileSync(join(folderOf(environment), 'run.json'), 'utf8')) as object), ...environment };
  } catch {
    return environment;
  }
}

/** Holds the folder until this process ends. Rejects if another run, or the Redis that one left, uses it. */
export async function holdFolder(folder: string) {
  const path = join(folder, 'run.json');
  // The system releases the lock of an SQLite file when its process ends, however that happens.
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
    /** Writes the settings of what this run made itself; they hold no password. */
    publish: (made: Environment): void => writeFileSync(path, `${JSON.stringify(made)}\n`),
    release: (): void => {
      rmSync(path, { force: true });
      lock.close();
    },
  };
}

/** Whether a Redis at `uri` has its data in `folder`. */
function isServing(uri: string, folder: string): Promise<boolean> {
  const { hostname, port } = new URL(uri);
  return new Promise((found) => {
    const socket = connect(Number(port), hostname, () => socket.write('CONFIG GET dir\r\n'));
    socket.setTimeout(1_000, () => socket.destroy());
    let reply = '';
    socket.setEncoding('utf8').on('data', (text: string) => {
      reply += text;
      if (reply.includes(`\n${folder}\r\n`)) socket.destroy();
      else if (reply.split('\r\n').length > 5 || reply.startsWith('-')) socket.destroy();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => found(reply.includes(`\n${folder}\r\n`)));
  });
}
