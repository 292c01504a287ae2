// A real Redis server on a free port, with its data in a temporary folder.
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from './free-port.ts';
import type { Pki } from './pki.ts';
import { PlainRedis } from './plain-redis.ts';
import { atEnd, eventually, exited, start, temporaryFolder, type Child } from './scope.ts';
import { tool } from './tool.ts';

export { freePort };

export const SERVER = execFileSync(new URL('../../bin/ensure-redis', import.meta.url).pathname, {
  encoding: 'utf8',
}).trim();

/** Returns an environment in which a process reads the time from a file at each call (libfaketime). */
export function clockFrom(file: string): Readonly<Record<string, string>> {
  tool('faketime', 'faketime');
  const library = readdirSync('/usr/lib')
    .map((name) => `/usr/lib/${name}/faketime/libfaketimeMT.so.1`)
    .find((path) => existsSync(path));
  if (library === undefined) throw new Error('libfaketime was not found: install the package faketime');
  // libc is preloaded too, because Redis's own allocator would ask for the time before libfaketime is ready.
  return {
    LD_PRELOAD: `${library}:libc.so.6`,
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_NO_CACHE: '1',
    DONT_FAKE_MONOTONIC: '1',
  };
}

/** Returns the arguments that `--tls-port` needs besides the port. Clients need no certificate. */
export async function tlsArguments(pki: Pki): Promise<readonly string[]> {
  const { cert, key } = await pki.producer('redis');
  return [
    ...['--tls-auth-clients', 'no', '--tls-ca-cert-file', pki.path('ca.pem')],
    ...['--tls-cert-file', pki.path('server.pem'), '--tls-key-file', pki.path('server-key.pem')],
    ...[
      '--tls-client-cert-file',
      pki.write('redis.pem', cert),
      '--tls-client-key-file',
      pki.write('redis-key.pem', key),
    ],
  ];
}

export interface StreamEntry {
  readonly entry: string;
  readonly fields: Readonly<Record<string, string>>;
}

export interface TestRedisOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly under?: string;
  /** The password of the default user, which replicas also use to connect to their master. */
  readonly password?: string | undefined;
}

export class TestRedis {
  readonly port: number;
  readonly #folder: string;
  readonly #args: readonly string[];
  readonly #env: Readonly<Record<string, string>>;
  readonly #password: string | undefined;
  #clock: string | undefined;
  #child: Child | undefined;
  #client: PlainRedis | undefined;

  private constructor(port: number, args: readonly string[], { env = {}, under, password }: TestRedisOptions) {
    this.port = port;
    this.#env = env;
    this.#folder = temporaryFolder('ingest-redis-', under);
    this.#password = password;
    this.#args = [...args, ...(password === undefined ? [] : ['--requirepass', password, '--masterauth', password])];
  }

  static async start(args: readonly string[] = [], options: TestRedisOptions = {}): Promise<TestRedis> {
    const redis = new TestRedis(await freePort(), args, options);
    await redis.start();
    atEnd(() => redis.#forget());
    return redis;
  }

  static async startWithClock(): Promise<TestRedis> {
    const clock = join(temporaryFolder('ingest-clock-'), 'clock');
    writeFileSync(clock, '+0\n');
    const redis = await TestRedis.start([], { env: clockFrom(clock) });
    redis.#clock = clock;
    return redis;
  }

  /** Sets the server's clock to a number of hours ahead of the clock of this machine. */
  setClock(hoursAhead: number): void {
    const seconds = Math.round(hoursAhead * 3_600);
    writeFileSync(this.#clock ?? '', `${seconds < 0 ? '' : '+'}${seconds}\n`);
  }

  get uri(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  async start(extra: readonly string[] = []): Promise<void> {
    this.launch(extra);
    await eventually('Redis answers', async () => (await this.command('PING')) === 'PONG');
  }

  launch(extra: readonly string[] = []): void {
    // Fact: while an fsync keeps the disk busy, Redis delays its writes, and a kill then loses commands that were
    // answered. Choice: no fsync. Effect: a killed server has written every command that it answered. No test covers
    // a power failure.
    const fixed = '--bind 127.0.0.1 --appendonly yes --appendfsync no --maxmemory-policy noeviction --save'.split(' ');
    const args = ['--port', String(this.port), '--dir', this.#folder, ...fixed, '', ...this.#args, ...extra];
    this.#child = start(SERVER, args, { ...process.env, ...this.#env });
    this.#child.stdout.resume();
    this.#child.stderr.resume();
  }

  get pid(): number {
    return this.#child?.pid ?? -1;
  }

  get running(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  async signal(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    if (child === undefined) return;
    child.kill(signal);
    if (signal === 'SIGTERM' || signal === 'SIGKILL') {
      this.#forget();
      await exited(child);
    }
  }

  async land(stream = 'ingest'): Promise<void> {
    await this.command('XGROUP', 'SETID', stream, 'warehouse', '$');
  }

  /** Sends a command. The reply has its RESP2 form. */
  async command(name: string, ...args: (string | Buffer)[]): Promise<unknown> {
    const client = await this.#connected();
    return client.call(name, ...args);
  }

  async entries(stream = 'ingest'): Promise<StreamEntry[]> {
    const entries: StreamEntry[] = [];
    for (let from = '-'; ;) {
      const page = (await this.command('XRANGE', stream, from, '+', 'COUNT', '500')) as [string, string[]][];
      for (const [entry, list] of page) {
        const fields: Record<string, string> = {};
        for (let at = 0; at + 1 < list.length; at += 2) fields[list[at] ?? ''] = list[at + 1] ?? '';
        entries.push({ entry, fields });
      }
      const last = page.at(-1);
      if (last === undefined || page.length < 500) return entries;
      from = `(${last[0]}`;
    }
  }

  async length(stream = 'ingest'): Promise<number> {
    return Number(await this.command('XLEN', stream));
  }

  async #connected(): Promise<PlainRedis> {
    if (this.#client?.closed === false) return this.#client;
    this.#forget();
    return (this.#client = await PlainRedis.open(this.port, this.#password));
  }

  #forget(): void {
    this.#client?.close();
    this.#client = undefined;
  }
}
