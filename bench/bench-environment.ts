// Starts the servers that a benchmark needs in their own processes, with new certificates, and stops them. Uses only
// loopback, free ports and temporary folders.
import { spawn, execFileSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { freePort } from '../test/support/free-port.ts';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import type { HeapReport } from './load/heap-report.ts';
import type { ClientFiles } from './load/options.ts';
import { CertificateAuthority, LOCALHOST } from '../test/support/certificate-authority.ts';

export const ROOT = resolve(import.meta.dirname, '..');
export const NODE = process.execPath;

export interface BenchCertificates {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
  /** The files of a producer, as the load generators expect them. */
  readonly client: ClientFiles;
}

export interface RunningServer {
  readonly name: string;
  readonly pid: number;
  readonly port: number;
  /** Set only for node programs. */
  readonly heapReport?: (() => Promise<HeapReport>) | undefined;
  /** The data folder, if there is one. */
  readonly folder?: string;
  /** Returns the number of bytes written to standard output. */
  readonly printed: () => number;
  /** Sends SIGTERM, or SIGKILL after 10 s, and waits for the process to exit. */
  stop(): Promise<void>;
}

export const git = (...args: readonly string[]): string =>
  execFileSync('git', ['-C', ROOT, ...args], { encoding: 'utf8', stdio: 'pipe' }).trim();

/**
 * Checks out `commit` into a temporary folder, which uses the dependencies of this checkout and is removed when this
 * process exits. Throws if the commit does not exist.
 */
export function checkOut(commit: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'ingest-bench-base-'));
  process.on('exit', () => git('worktree', 'remove', '--force', folder));
  git('worktree', 'add', '--force', '--detach', folder, commit);
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}

const PRELOAD = { NODE_OPTIONS: `--import=${pathToFileURL(join(ROOT, 'bench/load/heap-report.ts')).href}` };

const running = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130));

export class BenchEnvironment {
  readonly folder: string;
  readonly certificates: BenchCertificates;

  private constructor(folder: string, certificates: BenchCertificates) {
    this.folder = folder;
    this.certificates = certificates;
    process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
  }

  static async create(): Promise<BenchEnvironment> {
    const folder = mkdtempSync(join(tmpdir(), 'ingest-bench-'));
    const authority = new CertificateAuthority('bench authority');
    const server = await authority.issue(LOCALHOST);
    const uris = ['urn:bench:producer', 'urn:ingest:aud:ingest-gateway'];
    const client = await authority.issue({ commonName: 'bench', uris });
    const write = (name: string, content: string): string => {
      const path = join(folder, name);
      writeFileSync(path, content);
      return path;
    };
    const ca = write('ca.pem', authority.certificate);
    return new BenchEnvironment(folder, {
      ca,
      cert: write('server.pem', server.certificate),
      key: write('server-key.pem', server.key),
      client: {
        caPath: ca,
        certPath: write('client.pem', client.certificate),
        keyPath: write('client-key.pem', client.key),
      },
    });
  }

  async redis(more: readonly string[] = []): Promise<RunningServer> {
    const binary = execFileSync(join(ROOT, 'bin/ensure-redis'), { encoding: 'utf8' }).trim();
    const port = await freePort();
    const dir = mkdtempSync(join(this.folder, 'redis-'));
    const own = ['--port', String(port), '--bind', '127.0.0.1', '--dir', dir, '--save', ''];
    const log = ['--appendonly', 'yes', '--appendfsync', 'everysec', '--auto-aof-rewrite-percentage', '0'];
    const child = start(binary, [...own, ...log, '--maxmemory-policy', 'noeviction', ...more], process.env);
    await lineOf(child, /Ready to accept connections/);
    return { ...server('redis', child, port, () => rmSync(dir, { recursive: true, force: true })), folder: dir };
  }

  consumer(redis: RunningServer, warehouse: string, root: string = ROOT): Promise<RunningServer> {
    return this.announced('consumer', join(root, 'bin/ingest-consumer'), [], {
      INGEST_QUEUE_URI: `redis://127.0.0.1:${redis.port}`,
      INGEST_WAREHOUSE_URI: warehouse,
      INGEST_CONSUMER_ADDR: '127.0.0.1:0',
    });
  }

  gateway(
    redis: RunningServer,
    root: string = ROOT,
    more: Readonly<Record<string, string>> = {},
  ): Promise<RunningServer> {
    return this.announced('gateway', join(root, 'bin/ingest-gateway'), [], {
      ...PRELOAD,
      ...more,
      INGEST_QUEUE_URI: `redis://127.0.0.1:${redis.port}`,
      INGEST_GATEWAY_ADDR: '127.0.0.1:0',
      INGEST_STATE_DIR: this.folder,
      INGEST_TLS_CERT: this.certificates.cert,
      INGEST_TLS_KEY: this.certificates.key,
      INGEST_TLS_CLIENT_CA: this.certificates.ca,
    });
  }

  async peer(file: string, env: Readonly<Record<string, string>> = {}): Promise<RunningServer> {
    const { ca, cert, key } = this.certificates;
    const args = ['--disable-warning=ExperimentalWarning', join(ROOT, 'bench/peers', file)];
    return this.announced(file, NODE, args, { PORT: '0', CA: ca, CERT: cert, KEY: key, ...PRELOAD, ...env });
  }

  /** Starts a program that prints `listening on <port>` or `listening on <URL>`. */
  async announced(
    name: string,
    command: string,
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
  ): Promise<RunningServer> {
    const child = start(command, args, { ...process.env, ...env });
    const listening = /listening on (?:https?:\/\/[\d.]+:)?(\d+)/;
    return server(name, child, Number(listening.exec(await lineOf(child, listening))?.[1]));
  }

  /** Starts a program that prints nothing. The caller waits until it listens. */
  silent(name: string, command: string, args: readonly string[], port: number): RunningServer {
    return server(name, start(command, args, process.env), port);
  }
}

function start(command: string, args: readonly string[], env: NodeJS.ProcessEnv): ChildProcess {
  const child = spawn(command, args, {
    env,
    stdio: ['ignore', 'pipe', 'inherit', ...(env['NODE_OPTIONS'] === PRELOAD.NODE_OPTIONS ? (['ipc'] as const) : [])],
  });
  running.add(child);
  child.once('exit', () => running.delete(child));
  return child;
}

function server(name: string, child: ChildProcess, port: number, after?: () => void | Promise<void>): RunningServer {
  let bytes = 0;
  child.stdout?.on('data', (chunk: Buffer) => (bytes += chunk.length));
  return {
    name,
    pid: child.pid ?? -1,
    port,
    heapReport: child.channel === null || child.channel === undefined ? undefined : () => answerOf(child),
    printed: () => bytes,
    stop: async () => {
      if (child.exitCode === null && child.signalCode === null) {
        const gone = once(child, 'exit');
        child.kill('SIGTERM');
        const timer = setTimeout(() => child.kill('SIGKILL'), 10_000);
        await gone;
        clearTimeout(timer);
      }
      await after?.();
    },
  };
}

async function answerOf(child: ChildProcess): Promise<HeapReport> {
  const answer = once(child, 'message');
  child.send({});
  return (await answer)[0] as HeapReport;
}

function lineOf(child: ChildProcess, pattern: RegExp): Promise<string> {
  return new Promise((found, failed) => {
    child.once('exit', (code) => failed(new Error(`${child.spawnfile} ended with ${code} before it was ready`)));
    if (child.stdout === null) return;
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (pattern.test(line)) found(line);
    });
  });
}
