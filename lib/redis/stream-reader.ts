// The reading side of the queue on a Redis Stream: one member of the consumer group `warehouse`.
//
// Invariants: an entry is given to the caller again and again until it is acknowledged. Entries that a dead or frozen
// member took are claimed before new ones are read, first thing and then every CLAIM_INTERVAL_MS: they are the oldest.
// After a lost answer this member's own pending entries are read again at once, and do not wait to be claimed.
//
// Two connections: a blocked XREADGROUP holds up every command behind it, so reading has one of its own. A command of
// whose answer nothing comes in for ANSWER_TIMEOUT_MS makes its connection anew; the server was frozen, or the network
// cut.
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import {
  GroupVanished,
  NOTES,
  REPLICA_LEASE_MS,
  RETENTION_MS,
  type Delivery,
  type EntryName,
  type NotedEvent,
  type QueueLag,
  type QueueReader,
  type QueueSize,
  type QueueState,
} from '../ingest/queue.ts';
import type { Log } from '../process/log.ts';
import { byteConnection, type MasterLookup, type RedisConnection, type Server } from './client.ts';
import { valueConnection } from './node-redis.ts';
import { withTimeout } from './deadline.ts';
import { deliveriesOf, droppedDelivery, elementsOf } from './deliveries.ts';
import { NoAnswer, QueueRefusal, RedisError } from './errors.ts';
import { eventsOfNote, noteKey, noteText } from './landing-notes.ts';
import { Membership } from './membership.ts';
import { queueIdentity, type QueueIdentity } from './queue-identity.ts';
import type { RedisValue, Reply } from './reply.ts';
import { assertRights } from './rights.ts';
import { Script, type Argument } from './script.ts';
import { GROUP, STREAM } from './stream-names.ts';
import { StreamTrimmer, UNLANDED_HOURS_MAX } from './stream-trimmer.ts';

const ANSWER_TIMEOUT_MS = 3_000;
const CLAIM_INTERVAL_MS = 1_000;
/** Bytes after which one claim takes no more. */
const CLAIM_BYTES = 4 << 20;
const ONLY_PARTITION = '0';
/** Entries of one acknowledgement: Redis does nothing else meanwhile. */
const ACKNOWLEDGE_MAX = 1_000;

export interface StreamReaderOptions {
  readonly uri: string | MasterLookup;
  readonly log: Log;
  readonly stream?: string;
  /** This member's name in the group, where it is one of several partitions' readers. */
  readonly name?: string;
  /** How the queue is identified on a server that holds the stream; by the stream's own metadata by default. */
  readonly identify?: (server: Server) => Promise<QueueIdentity>;
  /** How long what has not landed stays in the queue, in milliseconds. */
  readonly unlandedMs?: number;
  /** Called with the number of accepted events that the queue lost before a member read them. */
  readonly onLost?: (events: number) => void;
}

export class StreamReader implements QueueReader {
  readonly name: string;
  readonly #reading: RedisConnection<Reply>;
  readonly #control: RedisConnection<RedisValue>;
  readonly #stream: string;
  readonly #queueIdentity: (server: Server) => Promise<QueueIdentity>;
  readonly #membership: Membership;
  readonly #join = new Script('join.lua');
  readonly #lag = new Script('lag.lua');
  readonly #claimScript = new Script('claim.lua');
  readonly #noteScript = new Script('note.lua');
  readonly #trimmer: StreamTrimmer;

  #claimedMs = Number.NEGATIVE_INFINITY;
  /** Where in the group's list the next claim begins; '-' is its beginning. */
  #claimCursor = '-';
  /**
   * The last of its own pending entries that this member has read again, after an answer was lost; undefined where none
   * was.
   */
  #againFrom: string | undefined;
  /** See Delivery.source. */
  #source = '';
  #closing: Promise<void> | undefined;

  constructor(options: StreamReaderOptions) {
    const { uri, log, stream = STREAM } = options;
    this.name = options.name ?? memberName();
    this.#stream = stream;
    this.#queueIdentity = options.identify ?? ((server) => queueIdentity(server, stream));
    this.#reading = byteConnection({ uri, log: log.child({ connection: 'reading' }), name: 'ingest-consumer' });
    this.#control = valueConnection({ uri, log: log.child({ connection: 'control' }), name: 'ingest-consumer' });
    const run = (script: Script, command: readonly string[]): Promise<RedisValue> =>
      this.#answer(script.run(this.#control, command));
    this.#membership = new Membership({ run, log, stream, group: GROUP, name: this.name });
    this.#reading.onLost = () => (this.#againFrom = '0');
    this.#trimmer = new StreamTrimmer({
      server: this.#control.values,
      stream,
      retentionMs: RETENTION_MS,
      unlandedMs: options.unlandedMs ?? UNLANDED_HOURS_MAX * 3_600_000,
      log,
      onLost: options.onLost ?? (() => undefined),
    });
    this.#reading.inspect = (server) => this.#inspect(server);
    this.#control.inspect = (server) => this.#inspect(server);
  }

  /**
   * Begins to connect, and keeps at it. True once both connections stand, false when they do not within `timeoutMs`.
   * Rejects with a QueueRefusal where this program must not work with the queue as it is.
   */
  async open(timeoutMs: number): Promise<boolean> {
    const connections = [this.#reading, this.#control];
    const ready = Promise.all(
      connections.map(
        (connection) =>
          new Promise<void>((resolve, reject) => {
            connection.onReady = resolve;
            connection.onRefused = reject;
            connection.open();
          }),
      ),
    );
    return withTimeout(ready, timeoutMs).then(
      () => true,
      (cause: unknown) => {
        if (cause instanceof QueueRefusal) throw cause;
        return false;
      },
    );
  }

  /** Why there is no connection, in words that hold no secret. */
  get lastError(): string {
    return this.#control.ready ? this.#reading.lastError : this.#control.lastError;
  }

  /** How many replicas gave a sign of life lately, this one included, by this one's last sign. */
  get replicas(): number {
    return this.#membership.replicas;
  }

  /** Whether the servers answer, and take no commands yet: replicas, or reading their data. */
  get waiting(): boolean {
    return [this.#reading, this.#control].every((connection) => connection.ready || connection.waiting);
  }

  async register(replicasMax: number): Promise<boolean> {
    if (!(await this.#membership.register(replicasMax))) return false;
    this.#trimmer.start();
    return true;
  }

  /** Counts this process as a replica as soon as the queue takes its sign of life, without asking for a place. */
  registerLater(replicasMax: number): void {
    this.#membership.registerLater(replicasMax);
    this.#trimmer.start();
  }

  async join(): Promise<boolean> {
    this.#claimedMs = Number.NEGATIVE_INFINITY;
    this.#claimCursor = '-';
    // The queue may be another one since the connection was made: wiped, and begun anew.
    await this.#identify({ send: (command) => this.#command(command) });
    const command = this.#join.command(this.#stream);
    command.push(GROUP);
    return (await this.#answer(this.#join.run(this.#control, command))) === 1;
  }

  async read(max: number, idleMs: number, waitMs: number): Promise<readonly Delivery[]> {
    if (this.#againFrom !== undefined) {
      // What was taken with an answer that never came is this member's. What is in hand meanwhile comes once more.
      const own = await this.#readGroup(max, 0, this.#againFrom);
      this.#againFrom = own.at(-1)?.entry;
      if (own.length > 0) return own;
    }
    const claimed = await this.#claim(max, idleMs);
    return claimed.length > 0 ? claimed : this.#readGroup(max, waitMs, '>');
  }

  async acknowledge(entries: readonly EntryName[]): Promise<number> {
    let done = 0;
    for (let from = 0; from < entries.length; from += ACKNOWLEDGE_MAX) {
      const some = entries.slice(from, from + ACKNOWLEDGE_MAX).map(({ entry }) => entry);
      done += (await this.#command(['XACK', this.#stream, GROUP, ...some])) as number;
    }
    return done;
  }

  async unacknowledged<E extends EntryName>(entries: readonly E[]): Promise<readonly E[]> {
    const found = await Promise.all(
      entries.map(({ entry }) => this.#command(['XPENDING', this.#stream, GROUP, entry, entry, '1'])),
    );
    return entries.filter((_, at) => (found[at] as readonly unknown[]).length > 0);
  }

  async note(number: number, events: readonly NotedEvent[]): Promise<void> {
    const command = this.#noteScript.command(this.#stream);
    command.push(this.name, String(number), noteText(events));
    await this.#answer(this.#noteScript.run(this.#control, command));
  }

  async noted(entries: readonly EntryName[]): Promise<readonly NotedEvent[]> {
    const members = (await this.#command(['XINFO', 'CONSUMERS', this.#stream, GROUP])) as readonly string[][];
    const keys = members.flatMap((fields) => {
      const member = fields[fields.indexOf('name') + 1] ?? '';
      return Array.from({ length: NOTES }, (_, number) => noteKey(this.#stream, member, number));
    });
    const texts = await Promise.all(keys.map((key) => this.#command(['GET', key])));
    const wanted = new Set(entries.map(({ source, entry }) => `${source}/${entry}`));
    return texts
      .flatMap((text) => (typeof text === 'string' ? eventsOfNote(text) : []))
      .filter(({ source, entry }) => wanted.has(`${source}/${entry}`));
  }

  async lag(): Promise<QueueLag> {
    const command = this.#lag.command(this.#stream);
    command.push(GROUP);
    const [events, oldestMs] = (await this.#answer(this.#lag.run(this.#control, command))) as [number, number];
    return { events, oldestMs };
  }

  async lags(): Promise<ReadonlyMap<string, QueueLag>> {
    return new Map([[ONLY_PARTITION, await this.lag()]]);
  }

  states(): ReadonlyMap<string, QueueState> {
    const connected = this.#reading.ready && this.#control.ready;
    return new Map([[ONLY_PARTITION, connected ? { available: true } : { available: false, reason: this.lastError }]]);
  }

  async size(): Promise<QueueSize> {
    // A server that refuses INFO (a managed one, or a user without the right) still counts its events.
    const [events, info] = await Promise.all([
      this.#command(['XLEN', this.#stream]),
      this.#command(['INFO', 'memory']).catch(() => ''),
    ]);
    const field = (name: string): number | undefined => {
      const text = new RegExp(`^${name}:(\\d+)\\r?$`, 'm').exec(String(info))?.[1];
      return text === undefined ? undefined : Number(text);
    };
    return { events: Number(events), memoryBytes: field('used_memory'), memoryLimitBytes: field('maxmemory') };
  }

  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async #inspect(server: Server): Promise<void> {
    await assertRights(server, this.#stream, 'consumer');
    await this.#identify(server);
  }

  async #identify(server: Server): Promise<void> {
    this.#source = `${(await this.#queueIdentity(server)).id}/${this.#stream}`;
  }

  async #end(): Promise<void> {
    this.#trimmer.stop();
    await this.#membership.end(this.#control.ready);
    await Promise.all([this.#reading.close(), this.#control.close()]);
  }

  async #claim(max: number, idleMs: number): Promise<readonly Delivery[]> {
    const now = performance.now();
    if (this.#claimCursor === '-' && now - this.#claimedMs < CLAIM_INTERVAL_MS) return [];
    this.#claimedMs = now;
    for (;;) {
      const command = this.#claimScript.command(this.#stream);
      const limits = [max, CLAIM_BYTES, REPLICA_LEASE_MS].map(String);
      command.push(GROUP, this.name, String(idleMs), this.#claimCursor, ...limits);
      const reply = await this.#claimScript.run({ send: (sent) => this.#read(sent, 0) }, command);
      reply.array();
      this.#claimCursor = reply.text();
      const entries = deliveriesOf(reply, this.#source);
      const claimed = [...elementsOf(reply, () => droppedDelivery(reply.text(), this.#source)), ...entries];
      if (claimed.length > 0 || this.#claimCursor === '0-0') {
        if (this.#claimCursor === '0-0') this.#claimCursor = '-';
        return claimed;
      }
    }
  }

  async #readGroup(max: number, waitMs: number, from: string): Promise<readonly Delivery[]> {
    // BLOCK 0 would wait for ever.
    const block = waitMs === 0 ? [] : ['BLOCK', String(waitMs)];
    const command = [
      'XREADGROUP',
      'GROUP',
      GROUP,
      this.name,
      'COUNT',
      String(max),
      ...block,
      'STREAMS',
      this.#stream,
      from,
    ];
    const reply = await this.#read(command, waitMs).catch((cause: unknown) => {
      if (cause instanceof RedisError && cause.code === 'UNBLOCKED' && waitMs > 0) return undefined;
      throw cause;
    });
    // The wait was ended by force: the stream is gone, or the server is no master any more. It says which when it is
    // asked again.
    if (reply === undefined) return this.#readGroup(max, 0, from);
    // An array of one stream, which is its name and its entries; no array where there is nothing.
    if (reply.array() === undefined) return [];
    reply.array();
    reply.text();
    return deliveriesOf(reply, this.#source);
  }

  /** A command on the reading connection that may block for `waitMs`. */
  async #read(command: readonly Argument[], waitMs: number): Promise<Reply> {
    try {
      return await withTimeout(
        this.#reading.send(command),
        waitMs + ANSWER_TIMEOUT_MS,
        () => this.#reading.bytesReceived,
      );
    } catch (cause) {
      if (vanished(cause)) throw new GroupVanished('the stream or its group is gone', { cause });
      // An error that Redis answered a command with lost nothing; what a script did before its error, or anything else,
      // may have.
      const lost = !(cause instanceof RedisError) || (command[0] !== 'XREADGROUP' && cause.code !== 'NOSCRIPT');
      if (lost) this.#againFrom ??= '0';
      if (cause instanceof NoAnswer) this.#reading.restart('the server does not answer');
      throw cause;
    }
  }

  #command(command: readonly Argument[]): Promise<RedisValue> {
    return this.#answer(this.#control.send(command));
  }

  async #answer(reply: Promise<RedisValue>): Promise<RedisValue> {
    try {
      return await withTimeout(reply, ANSWER_TIMEOUT_MS);
    } catch (cause) {
      if (vanished(cause)) throw new GroupVanished('the stream or its group is gone', { cause });
      if (cause instanceof NoAnswer) this.#control.restart('the server does not answer');
      throw cause;
    }
  }
}

/**
 * A name for a member of the group: unique among all that ever were, because two of one name would share what is
 * pending.
 */
export const memberName = (): string => `${hostname()}-${process.pid}-${randomUUID().slice(0, 8)}`;

/** What Redis says of a group or stream that is not there. */
const vanished = (cause: unknown): boolean => cause instanceof RedisError && cause.code === 'NOGROUP';
