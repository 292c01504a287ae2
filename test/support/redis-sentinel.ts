// A real Redis master with replicas and three sentinels.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openLink, type Link } from './link.ts';
import { PlainRedis } from './plain-redis.ts';
import { freePort, SERVER, TestRedis, tlsArguments } from './redis.ts';
import { atEnd, eventually, start, temporaryFolder, type Child } from './scope.ts';
import type { Pki } from './pki.ts';

const MASTER_NAME = 'the-master';
const SENTINELS = 3;

export interface SentinelOptions {
  readonly replicas?: number;
  /** If set, clients, servers and sentinels use TLS. Each server also has a plain port for the test. */
  readonly pki?: Pki;
  readonly password?: string;
  /** The default is 700. Tests without a failover need more, because a busy machine may pause a healthy server. */
  readonly downAfterMs?: number;
  /** If true, every server is reached through a link. Cannot be combined with `pki`. */
  readonly linked?: boolean;
}

interface Sentinel {
  readonly port: number;
  /** The port that clients use: the TLS port if there is one. */
  readonly shownPort: number;
  readonly child: Child;
}

export class TestSentinels {
  readonly servers: readonly TestRedis[];
  readonly #shownPorts: ReadonlyMap<TestRedis, number>;
  readonly #links: ReadonlyMap<TestRedis, Link>;
  readonly #sentinels: readonly Sentinel[];
  readonly #options: SentinelOptions;
  readonly #clients = new Map<number, PlainRedis>();

  private constructor(
    shownPorts: ReadonlyMap<TestRedis, number>,
    links: ReadonlyMap<TestRedis, Link>,
    sentinels: readonly Sentinel[],
    options: SentinelOptions,
  ) {
    this.servers = [...shownPorts.keys()];
    this.#shownPorts = shownPorts;
    this.#links = links;
    this.#sentinels = sentinels;
    this.#options = options;
  }

  static async start(options: SentinelOptions = {}): Promise<TestSentinels> {
    const { replicas = 2, pki, password, linked = false } = options;
    const links = new Map<TestRedis, Link>();
    const certificates = pki === undefined ? [] : await tlsArguments(pki);
    const overTls = (port: number): readonly string[] =>
      pki === undefined ? [] : ['--tls-port', String(port), '--tls-replication', 'yes', ...certificates];
    const made = await Promise.all(
      Array.from({ length: 1 + replicas }, async () => {
        const tlsPort = await freePort();
        const args = ['--repl-diskless-sync-delay', '0', ...overTls(tlsPort)];
        const link = linked ? await openLink({ port: 0 }) : undefined;
        const announced = link === undefined ? [] : ['--replica-announce-port', String(link.port)];
        const server = await TestRedis.start([...args, ...announced], { password });
        if (link === undefined) return [server, pki === undefined ? server.port : tlsPort] as const;
        link.retarget({ host: '127.0.0.1', port: server.port });
        links.set(server, link);
        atEnd(() => link.close());
        return [server, link.port] as const;
      }),
    );
    const shownPorts = new Map(made);
    const [[, masterPort] = [undefined, 0], ...others] = made;
    for (const [replica] of others) await replica.command('REPLICAOF', '127.0.0.1', String(masterPort));
    const started = await Promise.all(
      Array.from({ length: SENTINELS }, () => startSentinel(masterPort, options, overTls)),
    );
    const sentinels = new TestSentinels(shownPorts, links, started, options);
    await sentinels.whole();
    return sentinels;
  }

  get uri(): string {
    const { pki, password } = this.#options;
    const hosts = this.#sentinels.map(({ shownPort }) => `127.0.0.1:${shownPort}`).join();
    const user = password === undefined ? '' : `:${password}@`;
    return `${pki === undefined ? 'redis' : 'rediss'}+sentinel://${user}${hosts}/${MASTER_NAME}`;
  }

  async master(): Promise<TestRedis> {
    const port = await this.#masterPort(0);
    return (
      this.servers.find((server) => this.#shownPorts.get(server) === port) ?? Promise.reject(new Error('no master'))
    );
  }

  linkTo(server: TestRedis): Link {
    const link = this.#links.get(server);
    if (link === undefined) throw new Error('the servers are not linked');
    return link;
  }

  async failOver(): Promise<void> {
    await this.#ask(0, 'FAILOVER', MASTER_NAME);
  }

  promoted(old: TestRedis): Promise<TestRedis> {
    return eventually(
      'a replica is promoted',
      async () => {
        const master = await this.master();
        return master !== old && /role:master/.test(await replication(master)) && master;
      },
      60_000,
    );
  }

  async rejoin(old: TestRedis, master: TestRedis): Promise<void> {
    await old.start(['--replicaof', '127.0.0.1', String(this.#shownPorts.get(master))]);
  }

  async whole(): Promise<void> {
    const replicas = this.servers.length - 1;
    await eventually(
      'sentinels and replicas are in step',
      async () => {
        const master = await this.master();
        if (((await replication(master)).match(/state=online/g) ?? []).length !== replicas) return false;
        for (let at = 0; at < SENTINELS; at += 1) {
          await this.#ask(at, 'CKQUORUM', MASTER_NAME);
          const known = (await this.#ask(at, 'REPLICAS', MASTER_NAME)) as string[][];
          const up = known.filter((fields) => fields[fields.indexOf('flags') + 1] === 'slave');
          const others = (await this.#ask(at, 'SENTINELS', MASTER_NAME)) as unknown[];
          if (others.length !== SENTINELS - 1 || up.length !== replicas) return false;
          if ((await this.#masterPort(at)) !== this.#shownPorts.get(master)) return false;
        }
        return true;
      },
      60_000,
    );
  }

  async #masterPort(sentinel: number): Promise<number> {
    const [, port] = (await this.#ask(sentinel, 'GET-MASTER-ADDR-BY-NAME', MASTER_NAME)) as [string, string];
    return Number(port);
  }

  async #ask(sentinel: number, ...args: readonly string[]): Promise<unknown> {
    let client = this.#clients.get(sentinel);
    if (client?.closed !== false) {
      client = await PlainRedis.open(this.#sentinels[sentinel]?.port ?? 0, this.#options.password);
      atEnd(client.close.bind(client));
      this.#clients.set(sentinel, client);
    }
    return client.call('SENTINEL', ...args);
  }
}

const replication = async (server: TestRedis): Promise<string> => String(await server.command('INFO', 'replication'));

/** Starts one sentinel. While the master is down, it cannot find other sentinels. */
export async function startSentinel(
  masterPort: number,
  options: SentinelOptions = {},
  overTls: (port: number) => readonly string[] = () => [],
): Promise<Sentinel> {
  const { pki, password, replicas = 2, downAfterMs = 700 } = options;
  const folder = temporaryFolder('ingest-sentinel-');
  const file = join(folder, 'sentinel.conf');
  const [port, tlsPort] = [await freePort(), await freePort()];
  const settings = [
    ...[`port ${port}`, 'bind 127.0.0.1', `dir ${folder}`],
    `sentinel monitor ${MASTER_NAME} 127.0.0.1 ${masterPort} 2`,
    `sentinel down-after-milliseconds ${MASTER_NAME} ${downAfterMs}`,
    `sentinel failover-timeout ${MASTER_NAME} 3000`,
    `sentinel parallel-syncs ${MASTER_NAME} ${Math.max(1, replicas)}`,
  ];
  if (password !== undefined) {
    settings.push(`requirepass ${password}`, `sentinel sentinel-pass ${password}`);
    settings.push(`sentinel auth-pass ${MASTER_NAME} ${password}`);
  }
  writeFileSync(file, `${settings.join('\n')}\n`);
  const child = start(SERVER, [file, '--sentinel', ...overTls(tlsPort)]);
  child.stdout.resume();
  child.stderr.resume();
  return { port, shownPort: pki === undefined ? port : tlsPort, child };
}
