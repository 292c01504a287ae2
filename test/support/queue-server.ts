// A real Redis of its own for a test, on a free port of loopback, with its data in a folder that is gone afterwards. It
// can be killed, frozen and started again on the same port.
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createClient } from 'redis';

const START_TIMEOUT_MS = 10_000;

export interface QueueServer {
  readonly uri: string;
  /** One command, by a connection of its own. */
  command(...args: string[]): Promise<unknown>;
  kill(): Promise<void>;
  /** Starts it again, with what it kept on disk. */
  start(): Promise<void>;
  freeze(): void;
  thaw(): void;
  stop(): Promise<void>;
}

/** `durable`: append-only file, synchronised at each write. Else nothing is kept on disk: a restart is an empty server. */
export async function startQueueServer({ durable = false } = {}): Promise<QueueServer> {
  const program = execFileSync(join(import.meta.dirname, '../../bin/ensure-redis'), { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }).trim();
  const folder = mkdtempSync(join(tmpdir(), 'ingest-redis-'));
  const port = await freePort();
  const uri = `redis://127.0.0.1:${port}`;
  const keep = durable ? ['--appendonly', 'yes', '--appendfsync', 'always'] : ['--appendonly', 'no'];
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', '', ...keep, '--logfile', 'redis.log'];
  let server: ChildProcess | undefined;

  async function start(): Promise<void> {
    server = spawn(program, args, { stdio: 'ignore' });
    const deadline = Date.now() + START_TIMEOUT_MS;
    for (;;) {
      try {
        await command(uri, ['PING']);
        return;
      } catch (cause) {
        if (server.exitCode !== null || Date.now() > deadline) throw new Error('Redis did not start', { cause });
        await delay(10);
      }
    }
  }

  async function kill(): Promise<void> {
    const ending = server;
    server = undefined;
    if (ending === undefined || ending.exitCode !== null || ending.signalCode !== null) return;
    const ended = once(ending, 'exit');
    ending.kill('SIGKILL');
    await ended;
  }

  const lastResort = (): void => {
    server?.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  };
  process.once('exit', lastResort);
  await start();
  return {
    uri,
    command: (...parts) => command(uri, parts),
    kill,
    start,
    freeze: () => void server?.kill('SIGSTOP'),
    thaw: () => void server?.kill('SIGCONT'),
    stop: async () => {
      await kill();
      rmSync(folder, { recursive: true, force: true });
      process.removeListener('exit', lastResort);
    },
  };
}

/** One command to the server and database of `uri`, by a connection of its own. */
export async function command(uri: string, parts: readonly string[]): Promise<unknown> {
  const client = createClient({ url: uri, RESP: 2, disableOfflineQueue: true, socket: { reconnectStrategy: false, connectTimeout: 2_000 } });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return await client.sendCommand([...parts]);
  } finally {
    client.destroy();
  }
}

/** A port that nobody listens on now. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
