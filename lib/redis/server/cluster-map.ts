// Finds the master of a key's slot in a Redis Cluster.
//
// Each CLUSTER SLOTS goes to the next node in turn, so an isolated node does not mislead for long. The nodes are
// those of the last reply and of the URI. MOVED is followed without asking. ASK is not followed: while its slot
// migrates, a partition refuses events, and producers send them again.
import type { ClockAndRandom } from '../../process/clock.ts';
import type { QueueAddress } from '../../process/queue-uri.ts';
import { shared } from '../../process/share-call.ts';
import { askOnce } from './ask-once.ts';
import type { MasterLookup } from './connection.ts';
import type { RedisValue, Server } from '../wire/values.ts';

export type ClusterAddress = Extract<QueueAddress, { readonly kind: 'sentinel' | 'cluster' }>;

export class ClusterMap {
  readonly #address: ClusterAddress;
  readonly #system: ClockAndRandom;
  readonly #keys: string[] = [];
  readonly #masters = shared(() => this.#ask());
  #nodes: readonly string[];
  #first = 0;

  constructor(address: ClusterAddress, system: ClockAndRandom) {
    this.#address = address;
    this.#system = system;
    this.#nodes = address.hosts;
  }

  lookup(key: string): MasterLookup {
    this.#keys.push(key);
    const find = async (cause: Error | undefined): Promise<string> => {
      const [, host = '', port] = /^MOVED \d+ (.+):(\d+)$/.exec(cause?.message ?? '') ?? [];
      const master = hostAndPort(host, port) ?? (await this.#masters()).get(key);
      if (master === undefined) throw new Error(`no node of the cluster serves the slot of ${key}`);
      return this.#address.uriOf(master);
    };
    return { find };
  }

  async #ask(): Promise<ReadonlyMap<string, string | undefined>> {
    const nodes = [...new Set([...this.#nodes, ...this.#address.hosts])];
    this.#first += 1;
    let last: unknown;
    for (let tried = 0; tried < nodes.length; tried += 1) {
      const node = nodes[(this.#first + tried) % nodes.length] ?? '';
      try {
        return await askOnce(this.#system, this.#address.uriOf(node), (server) => this.#mastersAt(server, node));
      } catch (cause) {
        last = cause;
      }
    }
    throw last;
  }

  async #mastersAt(server: Server, node: string): Promise<ReadonlyMap<string, string | undefined>> {
    const ranges = slotRanges(await server.send(['CLUSTER', 'SLOTS']), node.replace(/:\d+$/, ''));
    const slots = await Promise.all(this.#keys.map((key) => server.send(['CLUSTER', 'KEYSLOT', key])));
    this.#nodes = [...new Set(ranges.flatMap(({ nodes }) => nodes.filter((one) => one !== undefined)))];
    return new Map(
      this.#keys.map((key, at) => {
        const slot = Number(slots[at]);
        return [key, ranges.find(({ from, to }) => from <= slot && slot <= to)?.nodes[0]];
      }),
    );
  }
}

/** Returns ranges of slots and their nodes, the master first. An empty address means the node that was asked. */
const slotRanges = (answer: RedisValue, asked: string) =>
  (answer as readonly (readonly RedisValue[])[]).map(([from, to, ...nodes]) => ({
    from: Number(from),
    to: Number(to),
    nodes: (nodes as readonly (readonly RedisValue[])[]).map(([host, port]) =>
      hostAndPort(String(host || asked), String(port)),
    ),
  }));

/** Returns `undefined` if the reply names no server: a node without the host name that it needs is called `?`. */
export function hostAndPort(host: string, port = ''): string | undefined {
  const named = host.includes(':') && !host.startsWith('[') ? `[${host}]` : host;
  return /^[^?#@/\\\s]+$/.test(named) && URL.canParse(`redis://${named}:${port}`) ? `${named}:${port}` : undefined;
}
