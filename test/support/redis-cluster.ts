// A real Redis Cluster with three masters, each with one replica.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { freePort, TestRedis, tlsArguments } from './redis.ts';
import { eventually } from './scope.ts';
import type { Pki } from './pki.ts';

const MASTERS = 3;
/**
 * The second and third ranges begin with the slots of ingest-3 and ingest-0. `reshard` moves the first slots of a
 * master, so it moves the stream.
 */
const FIRST_SLOTS = [0, 4_890, 9_081, 16_384];
const NODE_TIMEOUT_MS = 5_000;

export interface ClusterOptions {
  /** If set, clients and nodes use TLS. Each node also has a plain port for the test. */
  readonly pki?: Pki;
  readonly firstSlots?: readonly number[];
}

export class TestCluster {
  /** The masters, followed by the replicas. */
  readonly nodes: readonly TestRedis[];
  /** The ports under which the nodes know each other. */
  readonly #shownPorts: readonly number[];
  readonly #options: ClusterOptions;

  private constructor(nodes: readonly TestRedis[], shownPorts: readonly number[], options: ClusterOptions) {
    this.nodes = nodes;
    this.#shownPorts = shownPorts;
    this.#options = options;
  }

  static async start(options: ClusterOptions = {}): Promise<TestCluster> {
    const { pki } = options;
    const ports = (): Promise<number[]> => Promise.all(Array.from({ length: 2 * MASTERS }, freePort));
    const [busPorts, tlsPorts] = [await ports(), await ports()];
    const overTls = ['--tls-replication', 'yes', '--tls-cluster', 'yes'];
    const secure = pki === undefined ? [] : [...(await tlsArguments(pki)), ...overTls];
    const nodes = await Promise.all(
      busPorts.map((bus, at) =>
        TestRedis.start([
          ...['--cluster-enabled', 'yes', '--cluster-port', String(bus)],
          ...['--cluster-node-timeout', String(NODE_TIMEOUT_MS), '--cluster-replica-validity-factor', '0'],
          ...['--cluster-require-full-coverage', 'no', '--repl-diskless-sync-delay', '0'],
          ...(pki === undefined ? [] : ['--tls-port', String(tlsPorts[at])]),
          ...secure,
        ]),
      ),
    );
    const cluster = new TestCluster(nodes, pki === undefined ? nodes.map(({ port }) => port) : tlsPorts, options);
    await cluster.#join(busPorts);
    return cluster;
  }

  get uri(): string {
    return this.uriOf('');
  }

  /** Returns the URI with `user`, which has the form `name:password@`. */
  uriOf(user: string): string {
    const hosts = this.#shownPorts.slice(1, 3).map((port) => `127.0.0.1:${port}`);
    return `${this.#options.pki === undefined ? 'redis' : 'rediss'}+cluster://${user}${hosts.join()}`;
  }

  async masterOf(key: string): Promise<TestRedis> {
    const asked = this.nodes.find(({ running }) => running) ?? this.nodes[0];
    const slot = Number(await asked?.command('CLUSTER', 'KEYSLOT', key));
    const ranges = (await asked?.command('CLUSTER', 'SLOTS')) as [number, number, [string, number]][];
    const port = ranges.find(([from, to]) => from <= slot && slot <= to)?.[2][1];
    const master = this.nodes.find((node) => node.port === port);
    if (master === undefined) throw new Error(`no node serves ${key}`);
    return master;
  }

  async reshard(from: TestRedis, to: TestRedis): Promise<void> {
    await promisify(execFile)('redis-cli', [
      ...['--cluster', 'reshard', `127.0.0.1:${from.port}`, '--cluster-yes', '--cluster-slots', '20'],
      ...['--cluster-from', String(await from.command('CLUSTER', 'MYID'))],
      ...['--cluster-to', String(await to.command('CLUSTER', 'MYID'))],
    ]);
  }

  async whole(): Promise<void> {
    await eventually(
      'the cluster is whole',
      async () => {
        for (const node of this.nodes) {
          const info = String(await node.command('CLUSTER', 'INFO'));
          const nodes = String(await node.command('CLUSTER', 'NODES'));
          if (!info.includes('cluster_state:ok') || !info.includes('cluster_slots_ok:16384')) return false;
          if (nodes.includes('fail') || nodes.match(/slave/g)?.length !== MASTERS) return false;
          const replication = String(await node.command('INFO', 'replication'));
          if (nodes.includes('myself,slave') && !replication.includes('master_link_status:up')) return false;
        }
        return true;
      },
      60_000,
    );
  }

  async #join(busPorts: readonly number[]): Promise<void> {
    const { firstSlots = FIRST_SLOTS } = this.#options;
    for (const [at, node] of this.nodes.entries()) {
      await node.command('CLUSTER', 'SET-CONFIG-EPOCH', String(at + 1));
      if (at >= MASTERS) continue;
      await node.command('CLUSTER', 'ADDSLOTSRANGE', String(firstSlots[at]), String((firstSlots[at + 1] ?? 0) - 1));
    }
    for (const [at, port] of this.#shownPorts.entries())
      if (at > 0) await this.nodes[0]?.command('CLUSTER', 'MEET', '127.0.0.1', String(port), String(busPorts[at]));
    const ids = await Promise.all(this.nodes.slice(0, MASTERS).map((node) => node.command('CLUSTER', 'MYID')));
    for (const [at, node] of this.nodes.entries())
      if (at >= MASTERS)
        await eventually(
          'it is a replica',
          async () => (await node.command('CLUSTER', 'REPLICATE', String(ids[at - MASTERS]))) === 'OK',
        );
    await this.whole();
  }
}
