// A real master with two replicas, and three sentinels that watch them, on free ports.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createClient } from 'redis';
import { freePort, SERVER, TestRedis } from './redis.ts';
import { eventually, start, temporaryFolder } from './scope.ts';

const NAME = 'the-master';
const REPLICAS = 2;
const SENTINELS = 3;

export class TestSentinels {
  readonly servers: readonly TestRedis[];
  readonly #ports: readonly number[];

  private constructor(servers: readonly TestRedis[], ports: readonly number[]) {
    this.servers = servers;
    this.#ports = ports;
  }

  static async start(): Promise<TestSentinels> {
    const servers = await Promise.all(
      Array.from({ length: 1 + REPLICAS }, () => TestRedis.start(['--repl-diskless-sync-delay', '0'])),
    );
    const [master, ...replicas] = servers;
    for (const replica of replicas) await replica.command('REPLICAOF', '127.0.0.1', String(master?.port));
    const ports = await Promise.all(Array.from({ length: SENTINELS }, freePort));
    for (const port of ports) {
      const folder = temporaryFolder('ingest-sentinel-');
      const file = join(folder, 'sentinel.conf');
      const settings = [
        ...[`port ${port}`, 'bind 127.0.0.1', `dir ${folder}`],
        ...[`sentinel monitor ${NAME} 127.0.0.1 ${master?.port} 2`, `sentinel down-after-milliseconds ${NAME} 700`],
        ...[`sentinel failover-timeout ${NAME} 3000`, `sentinel parallel-syncs ${NAME} ${REPLICAS}`],
      ];
      writeFileSync(file, `${settings.join('\n')}\n`);
      const child = start(SERVER, [file, '--sentinel']);
      child.stdout.resume();
      child.stderr.resume();
    }
    const sentinels = new TestSentinels(servers, ports);
    await sentinels.whole();
    return sentinels;
  }

  get uri(): string {
    return `redis+sentinel://${this.#ports.map((port) => `127.0.0.1:${port}`).join()}/${NAME}`;
  }

  /** The master, by what the first sentinel says. */
  async master(): Promise<TestRedis> {
    const [, port] = (await this.#ask(0, 'GET-MASTER-ADDR-BY-NAME', NAME)) as [string, string];
    return this.servers.find((server) => server.port === Number(port)) ?? Promise.reject(new Error('no master'));
  }

  /** Hands over to a replica, as it is planned. */
  async failOver(): Promise<void> {
    await this.#ask(0, 'FAILOVER', NAME);
  }

  /** Waits until another server than `old` is the master, and says so itself. */
  promoted(old: TestRedis): Promise<TestRedis> {
    return eventually('a replica is promoted', async () => {
      const master = await this.master();
      return master !== old && /role:master/.test(String(await master.command('INFO', 'replication'))) && master;
    });
  }

  /** Waits until all sentinels know each other, and the master has all its replicas in step. */
  async whole(): Promise<void> {
    await eventually(
      'sentinels and replicas are in step',
      async () => {
        const master = await this.master();
        const replication = String(await master.command('INFO', 'replication'));
        if ((replication.match(/state=online/g) ?? []).length !== REPLICAS) return false;
        for (let at = 0; at < SENTINELS; at += 1) {
          await this.#ask(at, 'CKQUORUM', NAME);
          const [, port] = (await this.#ask(at, 'GET-MASTER-ADDR-BY-NAME', NAME)) as [string, string];
          const replicas = (await this.#ask(at, 'REPLICAS', NAME)) as string[][];
          const up = replicas.filter((fields) => fields[fields.indexOf('flags') + 1] === 'slave');
          if (Number(port) !== master.port || up.length !== REPLICAS) return false;
        }
        return true;
      },
      60_000,
    );
  }

  async #ask(sentinel: number, ...args: readonly string[]): Promise<unknown> {
    const client = createClient({
      url: `redis://127.0.0.1:${this.#ports[sentinel]}`,
      RESP: 2,
      maintNotifications: 'disabled',
      disableClientInfo: true,
      socket: { reconnectStrategy: false, connectTimeout: 2_000 },
    });
    client.on('error', () => undefined);
    await client.connect();
    try {
      return await client.sendCommand(['SENTINEL', ...args]);
    } finally {
      client.destroy();
    }
  }
}
