// The queue port of ingest-admin on Redis Streams.
import { namesIn } from '../../ingest/erased.ts';
import type {
  EntryState,
  Erasure,
  PartitionStatus,
  QueueAdmin,
  QueuedCopy,
  QueuedStream,
  Replica,
  Replay,
  Replayed,
  StreamEntry,
  StreamStatus,
} from '../../ingest/queue-admin.ts';
import { REPLICA_LEASE_MS } from '../../ingest/queue.ts';
import { quarantineRowName } from '../../ingest/warehouse.ts';
import { maskedUri } from '../../process/uri.ts';
import { AdminConnection, type AdminConnectionOptions } from './admin-connection.ts';
import { entriesOf } from '../stream/entry.ts';
import { durabilityFaults } from '../server/durability.ts';
import { Histories, serverInfo, serverName } from '../server/facts.ts';
import { ensureGroup } from '../stream/group.ts';
import { IdIndex } from '../stream/id-index.ts';
import type { QueueIdentity } from '../stream/identity.ts';
import { isNoGroup, isNoKey, QueueRefusal, RedisError } from '../wire/errors.ts';
import { fieldsOf, type RedisValue, type Reply } from '../wire/reply.ts';
import { Script, type Argument, type Server } from '../wire/script.ts';
import { GROUP, keyOf } from '../stream/layout.ts';
import { type PartitionsOptions, type QueuePartition, queuePartitions } from '../stream/queue-partitions.ts';

/** One call of count.lua should read at most this many bytes, because it blocks Redis. */
const COUNT_BYTES = 4 << 20;
const COUNT_ENTRIES_FIRST = 16;
const COUNT_ENTRIES_MAX = 1_000;
const STATES_MAX = 16;

const SCRIPTS = {
  lag: new Script('lag.lua', 'group-place.lua'),
  replay: new Script('replay.lua', 'entry-state.lua'),
  states: new Script('states.lua', 'entry-state.lua'),
  noted: new Script('noted.lua'),
  erase: new Script('erase.lua', 'entry-state.lua', 'index-value.lua'),
  locate: new Script('locate.lua', 'index-value.lua'),
  count: new Script('count.lua', 'group-place.lua'),
  landAgain: new Script('land-again.lua', 'group-place.lua'),
};

interface StreamAdminOptions extends Omit<AdminConnectionOptions, 'inspect' | 'uri'> {
  readonly part: QueuePartition;
}

interface QueueAdminOptions extends PartitionsOptions, Pick<AdminConnectionOptions, 'log' | 'client'> {
  readonly uri: string;
  readonly partitions: number;
}

/** Opens each stream that a queue URI names. `makes: false` is for commands that change nothing. */
export function queueAdmin({ uri, partitions, log, client, ...options }: QueueAdminOptions): QueueAdmin {
  const { clock, random } = options;
  const parts = queuePartitions(uri, partitions, options);
  return {
    place: maskedUri(uri),
    streams: parts.map((part) => {
      const name = parts.length > 1 ? part.stream : undefined;
      return new StreamAdmin({ part, name, log, client, clock, random });
    }),
  };
}

export class StreamAdmin implements QueuedStream {
  readonly name: string;
  readonly #stream: string;
  readonly #connection: AdminConnection;
  readonly #histories = new Histories();
  #identity: QueueIdentity | undefined;
  #unidentified: unknown = new Error('the queue is not identified yet');

  constructor({ part, ...options }: StreamAdminOptions) {
    const { stream, identify, makes, uri } = part;
    this.name = stream;
    this.#stream = stream;
    const inspect = async (server: Server): Promise<void> => {
      // The metadata may be on an unavailable node. The status of this stream can be shown without it.
      this.#identity = await identify(server).catch((cause: unknown) => {
        if (makes || cause instanceof QueueRefusal) throw cause;
        this.#unidentified = cause;
        return undefined;
      });
      if (makes) await ensureGroup(server, stream);
      await this.#histories.meet(server, this);
    };
    this.#connection = new AdminConnection({ ...options, uri, inspect });
  }

  status(): Promise<StreamStatus> {
    return this.#telling(async () => {
      const server = this.#connection.values;
      const info = await serverInfo(server);
      const bytes = (name: string): number | undefined => (info.has(name) ? Number(info.get(name)) : undefined);
      return {
        run: info.get('run_id') ?? this.name,
        server: {
          name: serverName(info),
          partitions: [this.name],
          memoryBytes: bytes('used_memory'),
          memoryLimitBytes: bytes('maxmemory'),
          faults: durabilityFaults(info),
        },
        partition: { name: this.name, ...(await partitionStatus(server, this.#stream)) },
      };
    });
  }

  end(): Promise<{ readonly entry: string; readonly added: number; readonly length: number }> {
    return this.#telling(async () => {
      const about = await this.#connection.values.send(['XINFO', 'STREAM', this.#stream]).catch((cause: unknown) => {
        if (isNoKey(cause)) return [];
        throw cause;
      });
      const fields = fieldsOf(about as readonly RedisValue[]);
      const number = (name: string): number => Number(fields.get(name) ?? 0);
      const entry = String(fields.get('last-generated-id') ?? '0-0');
      return { entry, added: number('entries-added'), length: number('length') };
    });
  }

  after(entry: string, count: number): Promise<readonly StreamEntry[]> {
    return this.#telling(async () => {
      const reply = await this.#connection.send(['XRANGE', this.#stream, `(${entry}`, '+', 'COUNT', String(count)]);
      const { deliveries } = entriesOf(reply, this.#stream);
      return deliveries.map(({ entry: name, producer, notes, body = Buffer.alloc(0) }) => ({
        stream: this.#stream,
        entry: name,
        producer,
        noted: notes.id,
        body,
      }));
    });
  }

  clock(): Promise<number> {
    return this.#telling(() => clockOf(this.#connection.values));
  }

  find(id: string): Promise<QueuedCopy | undefined> {
    return this.#telling(async () => {
      const reply = await this.#run(SCRIPTS.locate, [this.#index.field(id)]);
      return this.#copiesOf(reply, id)[0];
    });
  }

  replay(rows: readonly Replay[], again: boolean): Promise<readonly Replayed[]> {
    return this.#telling(async () => {
      const args: Argument[] = [GROUP, again ? '1' : '0'];
      for (const { replayOf, id, traceparent, producer, body, acceptedAtMs } of rows) {
        const idNote = id === undefined || id === namesIn(body).id ? '' : `id\n${id}\n`;
        const trace = traceparent === undefined ? '' : `traceparent\n${traceparent}\n`;
        args.push(replayOf, producer, body, String(acceptedAtMs), idNote + trace, id ?? namesIn(body).id ?? '');
      }
      const reply = (await this.#run(SCRIPTS.replay, args)).value() as readonly (string | number)[];
      return rows.map(({ replayOf }, at) => ({
        replayOf,
        entry: String(reply[2 * at]),
        fresh: reply[2 * at + 1] === 1,
      }));
    });
  }

  states(entries: readonly string[]): Promise<readonly EntryState[]> {
    return this.#telling(async () => {
      const states: EntryState[] = [];
      for (let from = 0; from < entries.length; from += STATES_MAX) {
        const some = entries.slice(from, from + STATES_MAX);
        states.push(...((await this.#run(SCRIPTS.states, [GROUP, ...some])).value() as readonly EntryState[]));
      }
      return states;
    });
  }

  replicasAlive(): Promise<number> {
    return this.#telling(async () => {
      const since = String((await clockOf(this.#connection.values)) - REPLICA_LEASE_MS);
      return (await this.#connection.values.send(['ZCOUNT', keyOf(this.#stream, 'replicas'), since, '+inf'])) as number;
    });
  }

  noted(id: string, rows: readonly string[]): Promise<readonly QueuedCopy[]> {
    return this.#telling(async () =>
      this.#copiesOf(await this.#run(SCRIPTS.noted, [`${this.#source}/`, id, ...rows]), id),
    );
  }

  async countRead(sinceMs: number, onCounted: (entries: number) => void): Promise<number> {
    let count = COUNT_ENTRIES_FIRST;
    let all = 0;
    for (let from: string | undefined = entryBefore(sinceMs); from !== undefined;) {
      const args = [GROUP, from, String(count)];
      const reply = await this.#telling(async () => (await this.#run(SCRIPTS.count, args)).value());
      const [next, entries, bytes] = reply as readonly [string | null, number, number];
      all += entries;
      onCounted(entries);
      from = next ?? undefined;
      count = pageEntries(count, entries, bytes);
    }
    return all;
  }

  landAgain(sinceMs: number, entries: number): Promise<void> {
    return this.#telling(async () => {
      await this.#run(SCRIPTS.landAgain, [GROUP, entryBefore(sinceMs), String(entries)]);
    });
  }

  noteErasure(id: string): Promise<void> {
    return this.#telling(async () => {
      const nowMs = await clockOf(this.#connection.values);
      await this.#connection.values.send(['ZADD', keyOf(this.#stream, 'erased'), String(nowMs), id]);
    });
  }

  erase(copy: QueuedCopy, id: string, body: string): Promise<Erasure> {
    return this.#telling(async () => {
      this.#assertReadHere(copy.servers);
      if (copy.source !== this.#source) return 'gone';
      const row = quarantineRowName({ ...copy, producer: copy.producer ?? '' });
      const field = this.#index.field(id);
      const args = [GROUP, copy.entry, body, String(REPLICA_LEASE_MS), row, field];
      return (await this.#run(SCRIPTS.erase, args)).value() as Erasure;
    });
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  /** Throws if the entry was read from another server, where its name may belong to another event: see Delivery. */
  #assertReadHere(servers = 0): void {
    if (servers !== this.#histories.of(this))
      throw new Error('the queue is on another server since its entries were read; run again');
  }

  get #source(): string {
    return `${this.#identity?.id}/${this.#stream}`;
  }

  get #index(): IdIndex {
    if (this.#identity === undefined) throw this.#unidentified;
    return new IdIndex(this.#identity.secret);
  }

  #telling<T>(work: () => Promise<T>): Promise<T> {
    return this.#connection.telling(work);
  }

  #run(script: Script, args: readonly Argument[]): Promise<Reply> {
    return this.#connection.run(script, this.#stream, args);
  }

  #copiesOf(reply: Reply, id: string): QueuedCopy[] {
    const servers = this.#histories.of(this);
    const { deliveries } = entriesOf(reply, this.#source);
    const copies = deliveries.map(({ entry, source, producer, body, notes, acceptedAtMs, replayOf }) => {
      if ((notes.id ?? (body && namesIn(body).id)) !== id) return [];
      const place = { stream: this.#stream, source, entry, ...(servers === 0 ? {} : { servers }) };
      return [{ ...place, id, producer, acceptedAtMs, replayOf, body: body ?? Buffer.alloc(0) }];
    });
    return copies.flat();
  }
}

async function clockOf(server: Server): Promise<number> {
  const [seconds, microseconds] = (await server.send(['TIME'])) as readonly string[];
  return Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
}

/** Returns the name just before the first entry of a time. */
const entryBefore = (ms: number): string => (ms <= 0 ? '0-0' : `${Math.floor(ms) - 1}-18446744073709551615`);

function pageEntries(count: number, entries: number, bytes: number): number {
  const fitting = Math.floor((COUNT_BYTES * entries) / Math.max(1, bytes));
  return Math.max(1, Math.min(4 * count, fitting, COUNT_ENTRIES_MAX));
}

async function partitionStatus(server: Server, stream: string): Promise<Omit<PartitionStatus, 'name'>> {
  const [events, replicas, memoryBytes, behind] = await Promise.all([
    server.send(['XLEN', stream]),
    replicasOf(server, stream),
    memoryOf(server, stream),
    SCRIPTS.lag.run(server, stream, [GROUP]),
  ]);
  const [unread, pending, oldestUnlandedMs] = behind as readonly [number, number, number];
  return { stream, events: Number(events), memoryBytes, unread, pending, oldestUnlandedMs, replicas };
}

async function replicasOf(server: Server, stream: string): Promise<readonly Replica[]> {
  const [members, heartbeats, nowMs] = await Promise.all([
    server.send(['XINFO', 'CONSUMERS', stream, GROUP]).catch((cause: unknown) => {
      if (isNoGroup(cause) || isNoKey(cause)) return [];
      throw cause;
    }),
    server.send(['ZRANGE', keyOf(stream, 'replicas'), '0', '-1', 'WITHSCORES']),
    clockOf(server),
  ]);
  const held = new Map(
    (members as readonly RedisValue[][]).map((list) => {
      const member = fieldsOf(list);
      return [String(member.get('name')), Number(member.get('pending'))];
    }),
  );
  const alive = new Map<string, number>();
  for (const [name, atMs] of fieldsOf(heartbeats as readonly RedisValue[])) {
    const ageMs = Math.max(0, nowMs - Number(atMs));
    if (ageMs <= REPLICA_LEASE_MS) alive.set(name, ageMs);
  }
  const names = [...new Set([...alive.keys(), ...held.keys()])].toSorted();
  return names
    .map((name) => ({ name, holds: held.get(name) ?? 0, heartbeatMs: alive.get(name) }))
    .filter(({ holds, heartbeatMs }) => holds > 0 || heartbeatMs !== undefined);
}

async function memoryOf(server: Server, stream: string): Promise<number | undefined> {
  const ids = keyOf(stream, 'ids');
  try {
    const starts = String((await server.send(['GET', ids])) ?? '').split(' ');
    const keys = [stream, ...starts.filter((start) => start !== '').map((start) => `${ids}:${start}`)];
    const sizes = await Promise.all(keys.map((key) => server.send(['MEMORY', 'USAGE', key])));
    return sizes.reduce<number>((sum, size) => sum + Number(size ?? 0), 0);
  } catch (cause) {
    if (cause instanceof RedisError) return undefined;
    throw cause;
  }
}
