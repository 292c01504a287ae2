// The queue port of ingest-admin on Redis Streams.
import { namesIn } from '../../ingest/erased.ts';
import {
  isEntryBefore,
  QueueFailed,
  type EntryPage,
  type EntryState,
  type Erasure,
  type QueueAdmin,
  type QueuedCopy,
  type QueuedStream,
  type Replay,
  type Replayed,
  type StreamStatus,
} from '../../ingest/queue-admin.ts';
import { type EntryName, REPLICA_LEASE_MS, RETENTION_MS } from '../../ingest/queue.ts';
import { quarantineRowName } from '../../ingest/warehouse.ts';
import type { Clock } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import { messageOf } from '../../process/message-of.ts';
import { maskedUri } from '../../process/uri.ts';
import { RedisConnection } from '../server/connection.ts';
import { clockOf, Histories } from '../server/server-info.ts';
import { entriesOf, FIND } from '../stream/entry.ts';
import { ensureGroup, exhausted, xinfo } from '../stream/group.ts';
import type { IdIndex } from '../stream/id-index.ts';
import { KnownIdentity } from '../stream/queue-metadata.ts';
import { GROUP, keyOf } from '../stream/layout.ts';
import { type PartitionsOptions, type QueuePartition, queuePartitions } from '../stream/queue-partitions.ts';
import { explained } from '../stream/rights.ts';
import { withTimeout } from '../wire/deadline.ts';
import { isExhausted, queueIsAway, QueueRefusal } from '../wire/errors.ts';
import type { Client } from '../wire/redis-client.ts';
import { Script } from '../wire/script.ts';
import { fieldsOf, type Argument, type RedisBytes, type RedisValue, type Sender, type Server } from '../wire/values.ts';
import { streamStatus } from './stream-status.ts';

const CONNECT_MS = 5_000;
const ANSWER_TIMEOUT_MS = 10_000;

/** Limits of one call of read-page.lua, because it blocks Redis. */
const PAGE_ENTRIES = 500;
const PAGE_BYTES = 4 << 20;
const ERASURES_PAGE = 1_000;
/** The member that holds entries which are to land again, and the time after which any consumer claims them. */
const ABSENT_MEMBER = 'ingest-admin';
const ABSENT_IDLE_MS = 24 * 3_600_000;
/** The name of an entry, or of its quarantine row, which ends in a digest (warehouse.ts). */
const ROW_ENTRY = /^(\d+-\d+)(?:~[0-9a-f]+)?$/;
/** One call reads this many entries to see whether they exist. */
const STATES_MAX = 32;

const STATE = ['fields.lua', 'entry-state.lua'];
const SCRIPTS = {
  replay: new Script('replay.lua', ...STATE),
  states: new Script('entry-states.lua', ...STATE),
  erase: new Script('erase.lua', ...STATE, 'index-value.lua'),
  page: new Script('read-page.lua', ...STATE),
  landAgain: new Script('land-again.lua', ...STATE),
};

interface StreamAdminOptions {
  readonly clock: Clock;
  readonly part: QueuePartition;
  /** The prefix of error messages. */
  readonly prefix?: string;
  readonly log: Log;
  readonly client?: ((uri: string, name: string) => Client) | undefined;
}

type QueueAdminOptions = Omit<StreamAdminOptions, 'part' | 'prefix'> &
  PartitionsOptions & { readonly uri: string; readonly partitions: number };

/** Opens each stream that a queue URI names. `makes: false` is for commands that change nothing. */
export function queueAdmin({ uri, partitions, ...options }: QueueAdminOptions): QueueAdmin {
  const parts = queuePartitions(uri, partitions, options);
  const prefixOf = (part: QueuePartition): string => (parts.length > 1 ? `${part.stream}: ` : '');
  const streams = parts.map((part) => new StreamAdmin({ ...options, part, prefix: prefixOf(part) }));
  return { uri: maskedUri(uri), streams };
}

export class StreamAdmin implements QueuedStream {
  readonly name: string;
  readonly #clock: Clock;
  readonly #connection: RedisConnection;
  readonly #prefix: string;
  readonly #values: Server = {
    send: (command) => withTimeout(this.#clock, this.#connection.send(command), ANSWER_TIMEOUT_MS),
  };
  readonly #bytes: Sender<RedisBytes> = {
    send: (command) => withTimeout(this.#clock, this.#connection.bytes.send(command), ANSWER_TIMEOUT_MS),
  };
  #opening: Promise<void> | undefined;
  readonly #histories = new Histories();
  readonly #identity: KnownIdentity;
  /** Entries up to this one are in complete blocks. */
  #completeTo = '0-0';
  bytesUntilMs: number | undefined;
  #unidentified: unknown = new Error('the queue is not identified yet');

  constructor({ part, prefix = '', log, client, clock }: StreamAdminOptions) {
    const { stream, identify, makes, uri } = part;
    this.name = stream;
    this.#clock = clock;
    this.#prefix = prefix;
    this.#identity = new KnownIdentity(stream, clock, identify);
    this.#connection = new RedisConnection({ uri, name: 'ingest-admin', log, clock }, client);
    const inspect = async (server: Server): Promise<void> => {
      // The metadata may be on an unavailable node. The status of this stream can be shown without it.
      await this.#identity.ask(server).catch((cause: unknown) => {
        if (makes || cause instanceof QueueRefusal) throw cause;
        this.#unidentified = cause;
      });
      if (makes) await ensureGroup(server, stream);
      await this.#histories.meet(server, this);
    };
    this.#connection.tell({ inspect: (server) => inspect(server).catch((cause) => explained(server, stream, cause)) });
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

  after(entry: string, end?: string): Promise<EntryPage> {
    return this.#telling(async () => {
      if (end !== undefined && this.#identity.known === undefined) throw this.#unidentified;
      const args = [entry, end ?? '+', String(PAGE_ENTRIES), String(PAGE_BYTES), GROUP];
      const reply = (await SCRIPTS.page.run(this.#bytes, this.name, args)) as readonly RedisBytes[];
      const [full, page = null, states] = reply;
      const stateAt = (at: number): EntryState => String((states as readonly Buffer[])[at]) as EntryState;
      return { entries: this.#copies(page).map((copy, at) => ({ ...copy, state: stateAt(at) })), full: full === 1 };
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

  replay(row: Replay, again: boolean): Promise<Replayed> {
    return this.#telling(async () => {
      const { replayOf, id, traceparent, producer, body, acceptedAtMs } = row;
      const bodyId = namesIn(body).id;
      const idNote = id === undefined || id === bodyId ? '' : `id\n${id}\n`;
      const trace = traceparent === undefined ? '' : `traceparent\n${traceparent}\n`;
      const args = [GROUP, again ? '1' : '0', replayOf, producer, body, String(acceptedAtMs), idNote + trace];
      const reply = await this.#run(SCRIPTS.replay, [...args, id ?? bodyId ?? '']);
      const [entry, fresh] = reply as readonly [string, number];
      return { entry, fresh: fresh === 1 };
    });
  }

  states(entries: readonly string[]): Promise<readonly EntryState[]> {
    return this.#inGroups(entries, (some) => this.#run(SCRIPTS.states, [GROUP, ...some]));
  }

  copiesOfRows(id: string, rows: readonly string[]): Promise<readonly QueuedCopy[]> {
    return this.#telling(async () => {
      const replays = await this.#values.send(['HMGET', keyOf(this.name, 'replays'), `\n${id}`, ...rows]);
      const prefix = `${this.#identity.source}/`;
      const own = rows.filter((row) => row.startsWith(prefix)).map((row) => row.slice(prefix.length));
      const named = [...(replays as readonly (string | null)[]), ...own].flatMap(
        (name) => ROW_ENTRY.exec(name ?? '')?.[1] ?? [],
      );
      const replies = [...new Set(named)].map((name) => this.#bytes.send(['XRANGE', this.name, name, name]));
      return (await Promise.all(replies)).flatMap((reply) => this.#copiesOf(reply, id));
    });
  }

  erasures(from: number): ReturnType<QueuedStream['erasures']> {
    return this.#telling(async () => {
      const range = [String(from), String(from + ERASURES_PAGE - 1), 'REV', 'WITHSCORES'];
      const reply = await this.#values.send(['ZRANGE', keyOf(this.name, 'erased'), ...range]);
      return [...fieldsOf(reply as readonly RedisValue[])].map(([id, atMs]) => ({ id, atMs: Number(atMs) }));
    });
  }

  landAgain(entries: readonly EntryName[]): Promise<readonly EntryState[]> {
    return this.#inGroups(entries, (some) => {
      some.forEach((one) => this.#assertSameServer(one));
      const args = [GROUP, ABSENT_MEMBER, String(ABSENT_IDLE_MS), ...some.map(({ entry }) => entry)];
      return this.#run(SCRIPTS.landAgain, args);
    });
  }

  noteErasure(id: string): Promise<void> {
    return this.#telling(async () => {
      // An event is erased if it was accepted before, and its name may be later than the clock. A name may be of any
      // time, but its id is taken for RETENTION_MS only, and then the id of another event.
      const [{ entry }, serverMs] = [await this.end(), await clockOf(this.#values)];
      const nowMs = Math.max(serverMs, this.#clock.epochMs());
      const atMs = Math.max(serverMs, Math.min(Number.parseInt(entry, 10), nowMs + RETENTION_MS));
      await this.#values.send(['ZADD', keyOf(this.name, 'erased'), String(atMs), id]);
    });
  }

  erase(copy: QueuedCopy, id: string, body: string): Promise<Erasure> {
    return this.#telling(async () => {
      this.#assertSameServer(copy);
      if (copy.source !== this.#identity.source) return 'gone';
      const { entry } = copy;
      const names = [quarantineRowName(copy), this.#index.field(id), this.#completeTo];
      const args = [GROUP, entry, body, String(REPLICA_LEASE_MS), ...names];
      const reply = (await this.#run(SCRIPTS.erase, args)) as readonly [Erasure, string, number];
      const [state, replacement, isComplete] = reply;
      if (state !== 'erased') return state;
      if (isComplete === 1 && isEntryBefore(this.#completeTo, entry)) this.#completeTo = replacement;
      const lastMs = isComplete === 1 ? Number.parseInt(this.#completeTo, 10) : Number.POSITIVE_INFINITY;
      this.bytesUntilMs = Math.max(this.bytesUntilMs ?? 0, lastMs + RETENTION_MS);
      return state;
    });
  }

  close(): Promise<void> {
    this.#connection.close();
    return Promise.resolve();
  }

  /** On another server, an entry's name may belong to another event: see Delivery. */
  #assertSameServer({ servers = 0 }: EntryName): void {
    if (servers === this.#histories.of(this)) return;
    throw new Error('the queue moved to another server after its entries were read; run the command again');
  }

  get #index(): IdIndex {
    if (this.#identity.known === undefined) throw this.#unidentified;
    return this.#identity.index;
  }

  /** Connects on first use, and converts every failure to a QueueFailed. */
  async #telling<T>(work: () => Promise<T>): Promise<T> {
    try {
      await (this.#opening ??= this.#open());
      return await work().catch((cause: unknown) => explained(this.#values, this.name, cause));
    } catch (cause) {
      if (cause instanceof QueueFailed) throw cause;
      throw new QueueFailed(this.#prefix + (isExhausted(cause) ? exhausted(this.name) : messageOf(cause)), { cause });
    }
  }

  async #open(): Promise<void> {
    if (await this.#connection.opened(CONNECT_MS)) return;
    this.#opening = undefined;
    throw new Error(queueIsAway(this.#connection.lastError));
  }

  #inGroups<T>(
    entries: readonly T[],
    ask: (some: readonly T[]) => Promise<RedisValue>,
  ): Promise<readonly EntryState[]> {
    return this.#telling(async () => {
      const states: EntryState[] = [];
      for (let from = 0; from < entries.length; from += STATES_MAX)
        states.push(...((await ask(entries.slice(from, from + STATES_MAX))) as readonly EntryState[]));
      return states;
    });
  }

  #run(script: Script, args: readonly Argument[]): Promise<RedisValue> {
    return script.run(this.#values, this.name, args);
  }

  #copiesOf(reply: RedisBytes, id: string): QueuedCopy[] {
    return this.#copies(reply).filter((copy) => copy.id === id);
  }

  #copies(reply: RedisBytes): QueuedCopy[] {
    const servers = this.#histories.of(this);
    return entriesOf(reply, this.#identity.source).deliveries.map((delivery) => {
      const { entry, source, producer, notes, body = Buffer.alloc(0), acceptedAtMs, replayOf } = delivery;
      const name = { stream: this.name, source, entry, ...(servers === 0 ? {} : { servers }) };
      return { ...name, id: notes.id ?? namesIn(body).id, producer, acceptedAtMs, replayOf, body };
    });
  }
}
