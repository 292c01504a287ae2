// PostgreSQL for tests and measurements: the server of INGEST_TEST_POSTGRES_URI, or a private cluster in a temporary
// folder that is reachable through a Unix socket. initdb and the server refuse to run as root, so if the tests run as
// root, both run as the user `postgres`.
import { execFileSync, spawn, type ChildProcess, type StdioOptions } from 'node:child_process';
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { chownSync, cpSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { GENEROUS_MS, Wait, WITHIN_MS } from './deadline.ts';

const PORT = 5432;

export interface PostgresServer {
  /** Creates an empty database and returns its URI. `options` are appended to CREATE DATABASE. */
  freshDatabase(options?: string): Promise<string>;
  dropDatabase(uri: string): Promise<void>;
  query<Row extends pg.QueryResultRow>(uri: string, text: string, values?: unknown[]): Promise<Row[]>;
  stop(): Promise<void>;
}

export interface PrivatePostgres extends PostgresServer {
  readonly programs: string;
  readonly socketFolder: string;
  /** False after the server was stopped, and also if it exited because it could not recover. */
  readonly running: boolean;
  processes(): readonly number[];
  kill(): Promise<void>;
  start(): Promise<void>;
}

interface RunOptions {
  readonly cwd: string;
  readonly env: NodeJS.ProcessEnv;
  readonly uid?: number;
  readonly gid?: number;
}

export async function startPostgres(): Promise<PostgresServer> {
  const external = process.env['INGEST_TEST_POSTGRES_URI'];
  if (external === undefined || external === '') return startPrivatePostgres({ durable: false });
  return { ...databasesOf(external), stop: async () => undefined };
}

export interface PrivatePostgresOptions {
  readonly durable: boolean;
  readonly under?: string;
  readonly settings?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

export async function startPrivatePostgres({
  durable,
  under = tmpdir(),
  settings = [],
  env = {},
}: PrivatePostgresOptions): Promise<PrivatePostgres> {
  const programs = execFileSync(join(import.meta.dirname, '../../bin/ensure-postgres'), {
    encoding: 'utf8',
    env: { ...process.env, INGEST_TEST_POSTGRES_URI: '' },
    stdio: ['ignore', 'pipe', 'inherit'],
  }).trim();
  const folder = mkdtempSync(join(under, 'ingest-pg-'));
  const user = serverUser();
  if (user !== undefined) chownSync(folder, user.uid, user.gid);
  const data = join(folder, 'data');
  const options: RunOptions = { cwd: folder, env: { PATH: process.env['PATH'], LC_ALL: 'C' }, ...user };
  makeData(programs, data, options);
  const uri = `postgres://ingest@localhost:${PORT}/postgres?host=${encodeURIComponent(folder)}`;
  const args = [...serverArguments(data, folder, durable), ...settings.flatMap((one) => ['-c', one])];
  const started = { ...options, env: { ...options.env, ...env } };
  let child: ChildProcess | undefined;
  const start = async (): Promise<void> => {
    child = await startServer(join(programs, 'postgres'), args, started, uri);
  };
  const isRunning = (): boolean => child !== undefined && child.exitCode === null && child.signalCode === null;
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    const ended = isRunning() && child !== undefined ? once(child, 'exit') : undefined;
    child?.kill(signal);
    child = undefined;
    await ended;
  };
  const remove = (): void => rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  const lastResort = (): void => {
    child?.kill('SIGKILL');
    remove();
  };
  process.once('exit', lastResort);
  try {
    await start();
  } catch (cause) {
    remove();
    throw cause;
  }
  return {
    ...databasesOf(uri),
    programs,
    socketFolder: folder,
    start,
    get running() {
      return isRunning();
    },
    processes: () => (child?.pid === undefined ? [] : [child.pid, ...childrenOf(child.pid)]),
    kill: () => end('SIGKILL'),
    stop: async () => {
      // SIGQUIT requests PostgreSQL's immediate shutdown, which writes no checkpoint. The data is removed anyway.
      await end('SIGQUIT');
      remove();
      process.removeListener('exit', lastResort);
    },
  };
}

/** Starts the server. Retries, because a server that was just killed may refuse to start at first. */
async function startServer(
  program: string,
  args: readonly string[],
  options: RunOptions,
  uri: string,
): Promise<ChildProcess> {
  const wait = new Wait();
  for (;;) {
    // The output is printed only if the server does not start.
    const started = spawn(program, args, { ...options, stdio: ['ignore', 'ignore', 'pipe'] });
    let output = '';
    started.stderr.setEncoding('utf8').on('data', (text: string) => (output = (output + text).slice(-4_000)));
    const ended = once(started, 'exit');
    if (await Promise.race([ended.then(() => false), answers(uri, wait)])) return started;
    // After a kill, the child processes of the old server may hold its shared memory for a moment.
    if (wait.isOver(WITHIN_MS)) throw new Error(`PostgreSQL did not start:\n${output}`);
    if (started.exitCode === null && started.signalCode === null) started.kill('SIGKILL');
    await ended;
    await delay(100);
  }
}

const INITDB = ['--username', 'ingest', '--auth', 'trust', '--encoding', 'UTF8', '--locale', 'C', '--no-sync'];

/**
 * Creates the data folder. initdb takes a second or two of CPU time and always creates the same files, so a copy is
 * kept beside the dependencies.
 */
function makeData(programs: string, data: string, options: RunOptions): void {
  const version = execFileSync(join(programs, 'postgres'), ['--version'], { encoding: 'utf8' });
  const name = hash('sha256', JSON.stringify([version, INITDB])).slice(0, 16);
  const kept = join(import.meta.dirname, `../../node_modules/.cache/postgres-${name}`);
  if (existsSync(kept)) {
    execFileSync('cp', ['-R', kept, data]);
    if (options.uid !== undefined) execFileSync('chown', ['-R', `${options.uid}:${options.gid}`, data]);
    return;
  }
  const stdio: StdioOptions = ['ignore', 'ignore', 'inherit'];
  execFileSync(join(programs, 'initdb'), ['--pgdata', data, ...INITDB], { ...options, stdio });
  // The copy is renamed only when it is complete, because several tests may start at the same time.
  const own = `${kept}-${process.pid}`;
  try {
    cpSync(data, own, { recursive: true });
    renameSync(own, kept);
  } catch {
    rmSync(own, { recursive: true, force: true });
  }
}

const serverArguments = (data: string, folder: string, durable: boolean): string[] => [
  ...['-D', data, '-k', folder, '-p', String(PORT), '-c', 'listen_addresses='],
  ...'-c max_connections=100 -c shared_buffers=64MB -c log_min_messages=fatal'.split(' '),
  ...(durable ? [] : ['-c', 'fsync=off', '-c', 'full_page_writes=off']),
];

function childrenOf(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(/\s+/).filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

function serverUser(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const idOf = (flag: string): number => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
  return { uid: idOf('-u'), gid: idOf('-g') };
}

let databases = 0;

async function answers(uri: string, wait: Wait): Promise<boolean> {
  while (!wait.isOver(WITHIN_MS)) {
    try {
      await query(uri, 'SELECT 1');
      return true;
    } catch {
      await delay(20);
    }
  }
  return false;
}

function databasesOf(uri: string) {
  const drop = async (name: string): Promise<void> =>
    void (await query(uri, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`));
  return {
    query,
    dropDatabase: (database: string) => drop(new URL(database).pathname.slice(1)),
    async freshDatabase(options = '') {
      databases += 1;
      const name = `ingest_test_${process.pid}_${databases}`;
      await drop(name);
      // Copying files takes half the CPU time of the default, which writes each block of the template to the WAL.
      await query(uri, `CREATE DATABASE ${name} TEMPLATE template0 ENCODING 'UTF8' STRATEGY file_copy ${options}`);
      const fresh = new URL(uri);
      fresh.pathname = `/${name}`;
      return fresh.href;
    },
  };
}

async function query<Row extends pg.QueryResultRow>(uri: string, text: string, values: unknown[] = []): Promise<Row[]> {
  const client = new pg.Client({ connectionString: uri, connectionTimeoutMillis: GENEROUS_MS });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return (await client.query<Row>(text, values)).rows;
  } finally {
    await client.end();
  }
}
