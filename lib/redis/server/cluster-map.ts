// Finds the master of a key's slot in a Redis Cluster.
//
// Each CLUSTER SLOTS goes to the next node in turn, so an isolated node does not mislead for long. The nodes are
// those of the last reply and of the URI. MOVED is followed without asking. ASK is not followed: while its slot
// migrates, a partition refuses events, and producers send them again.
import type { ClockAndRandom } from '../../process/clock.ts';
import type { QueueAddress } from '../../process/queue-uri.ts';
import { askOnce, shared } from './ask-once.ts';
import type { MasterLookup } from './connection.ts';
import type { RedisValue, Server } from '../wire/values.ts';

export type ClusterAddress = Extract<QueueAddress, { readonly kind: 'sentinel' | 'cluster' }>;

interface SlotRange {
  readonly from: number;
  readonly to: number;
  /** `host:port` of each node, with the master first. */
  readonly nodes: readonly string[];
}

export class ClusterMap {
  readonly #address: ClusterAddress;
  readonly #system: ClockAndRandom;
  readonly #slots = new Map<string, number | undefined>();
  readonly #ranges = shared(() => this.#ask());
  #nodes: readonly string[];
  #first = 0;

  constructor(address: ClusterAddress, system: ClockAndRandom) {
    this.#address = address;
    this.#system = system;
    this.#nodes = address.hosts;
  }

  lookup(key: string): MasterLookup {
    this.#slots.set(key, undefined);
    const find = async (cause: Error | undefined): Promise<string> => {
      const moved = /^MOVED \d+ (.+):(\d+)$/.exec(cause?.message ?? '');
      return this.#address.uriOf(
        moved === null ? await this.#masterOf(key) : hostAndPort(moved[1] ?? '', moved[2] ?? ''),
      );
    };
    return { find };
  }

  async #masterOf(key: string): Promise<string> {
    const ranges = await this.#ranges();
    const slot = this.#slots.get(key) ?? -1;
    const [master] = ranges.find(({ from, to }) => from <= slot && slot <= to)?.nodes ?? [];
    if (master === undefined) throw new Error(`no node of the cluster serves slot ${slot}`);
    return master;
  }

  /** Asks the nodes in turn, until one answers. */
  async #ask(): Promise<readonly SlotRange[]> {
    const nodes = [...new Set([...this.#nodes, ...this.#address.hosts])];
    this.#first += 1;
    let last: unknown;
    for (let tried = 0; tried < nodes.length; tried += 1) {
      const node = nodes[(this.#first + tried) % nodes.length] ?? '';
      try {
        const ranges = await askOnce(this.#system, this.#address.uriOf(node), (server) => this.#slotsAt(server, node));
        this.#nodes = [...new Set(ranges.flatMap(({ nodes: some }) => some))];
        return ranges;
      } catch (cause) {
        last = cause;
      }
    }
    throw last;
  }

  async #slotsAt(server: Server, node: string): Promise<readonly SlotRange[]> {
    for (const [key, slot] of this.#slots)
      if (slot === undefined) this.#slots.set(key, (await server.send(['CLUSTER', 'KEYSLOT', key])) as number);
    return slotRanges(await server.send(['CLUSTER', 'SLOTS']), node.replace(/:\d+$/, ''));
  }
}

/** Parses the reply of CLUSTER SLOTS. An empty address means the node that was asked. */
const slotRanges = (answer: RedisValue, asked: string): readonly SlotRange[] =>
  (answer as readonly (readonly RedisValue[])[]).map(([from, to, ...nodes]) => ({
    from: Number(from),
    to: Number(to),
    nodes: (nodes as unknown as readonly (readonly [host: string | null, port: number])[]).map(([host, port]) =>
      host === null || host === '' ? `${asked}:${port}` : hostAndPort(host, String(port)),
    ),
  }));

const hostAndPort = (host: string, port: string): string =>
  host.includes(':') && !host.startsWith('[') ? `[${host}]:${port}` : `${host}:${port}`;
