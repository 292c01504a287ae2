// The queue port of ingest-admin on Redis Streams.
import { namesIn } from '../../ingest/erased.ts';
import {
  QueueFailed,
  type EntryState,
  type Erasure,
  type QueueAdmin,
  type QueuedCopy,
  type QueuedStream,
  type Replay,
  type Replayed,
  type StreamEntry,
  type StreamStatus,
} from '../../ingest/queue-admin.ts';
import { REPLICA_LEASE_MS } from '../../ingest/queue.ts';
import { quarantineRowName } from '../../ingest/warehouse.ts';
import type { Clock, ClockAndRandom } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import { messageOf } from '../../process/message-of.ts';
import { maskedUri } from '../../process/uri.ts';
import { RedisConnection } from '../server/connection.ts';
import { Histories } from '../server/facts.ts';
import { entriesOf, FIND } from '../stream/entry.ts';
import { ensureGroup, xinfo } from '../stream/group.ts';
import { IdIndex } from '../stream/id-index.ts';
import { clusterRefusal, type QueueIdentity } from '../stream/identity.ts';
import { GROUP, keyOf } from '../stream/layout.ts';
import { type PartitionsOptions, type QueuePartition, queuePartitions } from '../stream/queue-partitions.ts';
import { withTimeout } from '../wire/deadline.ts';
import { queueIsAway, QueueRefusal } from '../wire/errors.ts';
import type { Client } from '../wire/redis-client.ts';
import { Script } from '../wire/script.ts';
import { fieldsOf, type Argument, type RedisBytes, type RedisValue, type Sender, type Server } from '../wire/values.ts';
import { clockOf, streamStatus } from './stream-status.ts';

const CONNECT_MS = 5_000;
const ANSWER_TIMEOUT_MS = 10_000;

/** One call of count.lua should read at most this many bytes, because it blocks Redis. */
const COUNT_BYTES = 4 << 20;
const COUNT_ENTRIES_FIRST = 16;
const COUNT_ENTRIES_MAX = 1_000;
const STATES_MAX = 16;

const SCRIPTS = {
  replay: new Script('replay.lua', 'entry-state.lua'),
  states: new Script('states.lua', 'entry-state.lua'),
  noted: new Script('noted.lua'),
  erase: new Script('erase.lua', 'entry-state.lua', 'index-value.lua'),
  count: new Script('count.lua', 'group-place.lua'),
  landAgain: new Script('land-again.lua', 'group-place.lua'),
};

interface AdminOptions extends ClockAndRandom {
  readonly log: Log;
  readonly client?: ((uri: string, name: string) => Client) | undefined;
}

interface StreamAdminOptions extends AdminOptions {
  readonly part: QueuePartition;
  readonly label?: string | undefined;
}

interface QueueAdminOptions extends PartitionsOptions, AdminOptions {
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
      const label = parts.length > 1 ? part.stream : undefined;
      return new StreamAdmin({ part, label, log, client, clock, random });
    }),
  };
}

export class StreamAdmin implements QueuedStream {
  readonly name: string;
  readonly #clock: Clock;
  readonly #connection: RedisConnection;
  /** The prefix of error messages if the queue has several streams. */
  readonly #label: string | undefined;
  /** True if the URI names a single server. If it belongs to a Redis Cluster, errors report that. */
  readonly #plain: boolean;
  readonly #values: Server = { send: (command) => this.#limited(this.#connection.send(command)) };
  readonly #bytes: Sender<RedisBytes> = { send: (command) => this.#limited(this.#connection.bytes.send(command)) };
  #opening: Promise<void> | undefined;
  readonly #histories = new Histories();
  #identity: QueueIdentity | undefined;
  #unidentified: unknown = new Error('the queue is not identified yet');

  constructor({ part, label, log, client, clock, random }: StreamAdminOptions) {
    const { stream, identify, makes, uri } = part;
    this.name = stream;
    this.#clock = clock;
    this.#label = label;
    this.#plain = typeof uri === 'string';
    this.#connection = new RedisConnection({ uri, name: 'ingest-admin', log, clock, random }, client);
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
    this.#connection.tell({ inspect });
  }

  status(): Promise<StreamStatus> {
    return this.#telling(() => streamStatus(this.#values, this.name));
  }

  end(): Promise<{ readonly entry: string; readonly added: number; readonly length: number }> {
    return this.#telling(async () => {
      const fields = fieldsOf(await xinfo(this.#values, 'STREAM', this.name));
      const number = (name: string): number => Number(fields.get(name) ?? 0);
      const entry = String(fields.get('last-generated-id') ?? '0-0');
      return { entry, added: number('entries-added'), length: number('length') };
    });
  }

  after(entry: string, count: number): Promise<readonly StreamEntry[]> {
    return this.#telling(async () => {
      const reply = await this.#bytes.send(['XRANGE', this.name, `(${entry}`, '+', 'COUNT', String(count)]);
      const { deliveries } = entriesOf(reply, this.name);
      return deliveries.map(({ entry: name, producer, notes, body = Buffer.alloc(0) }) => ({
        stream: this.name,
        entry: name,
        producer,
        noted: notes.id,
        body,
      }));
    });
  }

  clock(): Promise<number> {
    return this.#telling(() => clockOf(this.#values));
  }

  find(id: string): Promise<QueuedCopy | undefined> {
    return this.#telling(async () => {
      const reply = await FIND.run(this.#bytes, this.name, [this.#index.field(id)]);
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
      const reply = (await this.#run(SCRIPTS.replay, args)) as readonly (string | number)[];
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
        states.push(...((await this.#run(SCRIPTS.states, [GROUP, ...some])) as readonly EntryState[]));
      }
      return states;
    });
  }

  replicasAlive(): Promise<number> {
    return this.#telling(async () => {
      const since = String((await clockOf(this.#values)) - REPLICA_LEASE_MS);
      return (await this.#values.send(['ZCOUNT', keyOf(this.name, 'replicas'), since, '+inf'])) as number;
    });
  }

  noted(id: string, rows: readonly string[]): Promise<readonly QueuedCopy[]> {
    return this.#telling(async () => {
      const args = [`${this.#source}/`, id, ...rows];
      return this.#copiesOf(await SCRIPTS.noted.run(this.#bytes, this.name, args), id);
    });
  }

  async countRead(sinceMs: number, onCounted: (entries: number) => void): Promise<number> {
    let count = COUNT_ENTRIES_FIRST;
    let all = 0;
    for (let from: string | undefined = entryBefore(sinceMs); from !== undefined;) {
      const args = [GROUP, from, String(count)];
      const reply = await this.#telling(() => this.#run(SCRIPTS.count, args));
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
      const nowMs = await clockOf(this.#values);
      await this.#values.send(['ZADD', keyOf(this.name, 'erased'), String(nowMs), id]);
    });
  }

  erase(copy: QueuedCopy, id: string, body: string): Promise<Erasure> {
    return this.#telling(async () => {
      const { servers = 0 } = copy;
      if (servers !== this.#histories.of(this))
        // On this server, the entry's name may belong to another event: see Delivery.
        throw new Error('the queue moved to another server after its entries were read; run the command again');
      if (copy.source !== this.#source) return 'gone';
      const row = quarantineRowName({ ...copy, producer: copy.producer ?? '' });
      const field = this.#index.field(id);
      const args = [GROUP, copy.entry, body, String(REPLICA_LEASE_MS), row, field];
      return (await this.#run(SCRIPTS.erase, args)) as Erasure;
    });
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  get #source(): string {
    return `${this.#identity?.id}/${this.name}`;
  }

  get #index(): IdIndex {
    if (this.#identity === undefined) throw this.#unidentified;
    return new IdIndex(this.#identity.secret);
  }

  /** Connects on first use, and converts every failure to a QueueFailed. */
  async #telling<T>(work: () => Promise<T>): Promise<T> {
    try {
      await (this.#opening ??= this.#open());
      return await work();
    } catch (cause) {
      if (cause instanceof QueueFailed) throw cause;
      const message = messageOf(this.#plain ? clusterRefusal(cause) : cause);
      throw new QueueFailed(this.#label === undefined ? message : `${this.#label}: ${message}`, { cause });
    }
  }

  async #open(): Promise<void> {
    if (await this.#connection.opened(CONNECT_MS)) return;
    this.#opening = undefined;
    throw new Error(queueIsAway(this.#connection.lastError));
  }

  #limited<T>(answer: Promise<T>): Promise<T> {
    return withTimeout(this.#clock, answer, ANSWER_TIMEOUT_MS);
  }

  #run(script: Script, args: readonly Argument[]): Promise<RedisValue> {
    return script.run(this.#values, this.name, args);
  }

  #copiesOf(reply: RedisBytes, id: string): QueuedCopy[] {
    const servers = this.#histories.of(this);
    const { deliveries } = entriesOf(reply, this.#source);
    const copies = deliveries.map(({ entry, source, producer, body, notes, acceptedAtMs, replayOf }) => {
      if ((notes.id ?? (body && namesIn(body).id)) !== id) return [];
      const place = { stream: this.name, source, entry, ...(servers === 0 ? {} : { servers }) };
      return [{ ...place, id, producer, acceptedAtMs, replayOf, body: body ?? Buffer.alloc(0) }];
    });
    return copies.flat();
  }
}

/** Returns the name just before the first entry of a time. */
const entryBefore = (ms: number): string => (ms <= 0 ? '0-0' : `${Math.floor(ms) - 1}-18446744073709551615`);

function pageEntries(count: number, entries: number, bytes: number): number {
  const fitting = Math.floor((COUNT_BYTES * entries) / Math.max(1, bytes));
  return Math.max(1, Math.min(4 * count, fitting, COUNT_ENTRIES_MAX));
}
