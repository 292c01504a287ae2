// The reading side of the queue on a Redis Stream: one member of the consumer group `warehouse`. It delivers an entry
// again until the entry is acknowledged.
//
// It uses two connections, because a blocked XREADGROUP delays every later command on its connection.
//
// A registered member sends a heartbeat every second. Without one for REPLICA_LEASE_MS, it is not counted until it
// sends another one.
import { hostname } from 'node:os';
import { GroupVanished, REPLICA_LEASE_MS } from '../../ingest/queue.ts';
import type { AcceptedEvent, Delivery, EntryName, QueueReader, QueueReport, QueueState } from '../../ingest/queue.ts';
import type { Clock, Random, Timer } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import { RedisConnection } from '../server/connection.ts';
import { clockOf, Histories } from '../server/server-info.ts';
import { EntryReading } from './entry-reading.ts';
import { Replies } from './timed-replies.ts';
import { entriesOf } from '../stream/entry.ts';
import { ensureGroup, makeGroup, warnOfOthers } from '../stream/group.ts';
import { KnownIdentity } from '../stream/queue-metadata.ts';
import { assertRights } from '../stream/rights.ts';
import type { Client } from '../wire/redis-client.ts';
import { Script } from '../wire/script.ts';
import type { Command, RedisValue, Server } from '../wire/values.ts';
import { GROUP, keyOf } from '../stream/layout.ts';
import type { QueuePartition } from '../stream/queue-partitions.ts';
import { StreamTrimmer } from '../stream/stream-trimmer.ts';

const HEARTBEAT_INTERVAL_MS = 1_000;
/** Idle members without pending entries are removed after this long. */
const MEMBER_IDLE_MAX_MS = 10 * 60_000;
const LEAVES = -1;
/** Limits the entries per XACK, because it blocks Redis. */
const ACKNOWLEDGE_MAX = 1_000;

/** The name must be unique: two members with the same name would share their pending entries. */
export const memberName = (random: Random): string => `${hostname()}-${process.pid}-${random.uuid().slice(0, 8)}`;

interface StreamReaderOptions {
  readonly clock: Clock;
  readonly part: QueuePartition;
  readonly log: Log;
  readonly name: string;
  readonly client?: (uri: string, name: string) => Client;
  readonly onReport?: (report: QueueReport) => void;
}

export class StreamReader implements QueueReader {
  readonly name: string;
  replicas = 0;
  isFirst = true;
  readonly #clock: Clock;
  readonly #reading: Replies;
  readonly #entries: EntryReading;
  readonly #control: Replies;
  readonly #stream: string;
  readonly #identity: KnownIdentity;
  readonly #register = new Script('register.lua', 'fields.lua');
  readonly #trimmer: StreamTrimmer;

  readonly #log: Log;
  #heartbeats: Timer | undefined;
  #replicasMax = 0;
  #crowded = false;

  readonly #histories = new Histories();
  #hasRead = false;
  /** True if a new connection found a group that has read nothing although this member has read from it. */
  #vanished = false;
  #closing: Promise<void> | undefined;

  constructor(options: StreamReaderOptions) {
    const { part, log, clock, client } = options;
    const { stream, retentionMs } = part;
    const server = { uri: part.uri, clock, name: 'ingest-consumer' };
    this.#clock = clock;
    this.#log = log;
    this.name = options.name;
    this.#stream = stream;
    this.#identity = new KnownIdentity(stream, clock, part.identify);
    // Both connections, because the work of one is of no use without the other's.
    const onRefused = (cause: unknown): void => this.#connections.forEach((one) => one.recheck(cause));
    const replies = (connection: string): Replies =>
      new Replies(clock, new RedisConnection({ ...server, log: log.child({ connection }) }, client), onRefused);
    this.#reading = replies('reading');
    this.#control = replies('control');
    this.#entries = new EntryReading({
      clock,
      replies: this.#reading,
      stream,
      member: this.name,
      parse: (reply) => entriesOf(reply, this.#identity.source, this.#trimmer.latestMs),
      servers: () => this.#histories.of(this.#reading.connection),
    });
    this.#trimmer = new StreamTrimmer({
      clock,
      server: this.#control.connection,
      stream,
      program: 'consumer',
      retentionMs,
      log,
      onReport: options.onReport,
    });
    for (const connection of this.#connections)
      connection.tell({ inspect: (server) => this.#inspect(server, connection) });
  }

  get #connections(): readonly [reading: RedisConnection, control: RedisConnection] {
    return [this.#reading.connection, this.#control.connection];
  }

  get bodyBytesMax(): number | undefined {
    return this.#identity.known?.bodyBytesMax;
  }

  /** Connects, and keeps trying. Resolves with false if a connection is not ready within `timeoutMs`. */
  async open(timeoutMs: number): Promise<boolean> {
    const opened = await Promise.all(this.#connections.map((one) => one.opened(timeoutMs)));
    return !opened.includes(false);
  }

  get lastError(): string {
    const [reading, control] = this.#connections;
    return control.ready ? reading.lastError : control.lastError;
  }

  /** True if the servers reply but accept no commands yet, because they are replicas or loading their data. */
  get waiting(): boolean {
    return this.#connections.every((connection) => connection.ready || connection.waiting);
  }

  async register(replicasMax: number): Promise<boolean> {
    if (!(await this.#renew(replicasMax))) return false;
    this.#replicasMax = replicasMax;
    this.#heartbeats ??= this.#clock.every(HEARTBEAT_INTERVAL_MS, () => void this.#beat());
    this.#trimmer.start();
    return true;
  }

  async join(): Promise<boolean> {
    // The queue may have been recreated since the connection was established.
    const server: Server = { send: (command) => this.#command(command) };
    await this.#identity.ask(server);
    this.#identity.keepAsking(server);
    return makeGroup(server, this.#stream);
  }

  async read(max: number, idleMs: number, waitMs: number): Promise<readonly Delivery[]> {
    if (this.#vanished) {
      [this.#vanished, this.#hasRead] = [false, false];
      throw new GroupVanished('the stream or its group was deleted and recreated');
    }
    const deliveries = await this.#entries.read(max, idleMs, waitMs);
    if (deliveries.length > 0) this.#hasRead = true;
    return deliveries;
  }

  async acknowledge(entries: readonly EntryName[]): Promise<number> {
    let done = 0;
    for (let from = 0; from < entries.length; from += ACKNOWLEDGE_MAX) {
      const some = entries.slice(from, from + ACKNOWLEDGE_MAX);
      // Between two reads, it leaves in one write with the next one.
      const replies = this.#entries.outstanding > 0 ? this.#control : this.#reading;
      const server = this.#histories.of(replies.connection);
      const names: string[] = [];
      for (const { entry, servers = 0 } of some) if (servers === server) names.push(entry);
      if (names.length < some.length) this.#reconnect();
      if (names.length > 0) done += Number(await this.#command(['XACK', this.#stream, GROUP, ...names], replies));
      for (const { entry } of some) this.#entries.inHand.delete(entry);
    }
    return done;
  }

  async erased(events: readonly AcceptedEvent[], ageMsMax = 0): Promise<ReadonlySet<string>> {
    if (this.#clock.ms() - this.#entries.nothingErasedMs < ageMsMax) return new Set();
    const key = keyOf(this.#stream, 'erased');
    const ids = [...new Set(events.flatMap(({ id }) => id ?? []))];
    if (ids.length === 0 || (await this.#command(['ZCARD', key])) === 0) return new Set();
    const times = (await this.#command(['ZMSCORE', key, ...ids])) as readonly (string | null)[];
    const erasedMs = new Map(ids.map((id, at) => [id, Number(times[at] ?? -1)]));
    return new Set(
      events.flatMap(({ id, acceptedAtMs }) => (acceptedAtMs <= (erasedMs.get(id ?? '') ?? -1) ? (id ?? []) : [])),
    );
  }

  state(): QueueState {
    const connected = this.#connections.every(({ ready }) => ready);
    return connected ? { available: true } : { available: false, reason: this.lastError };
  }

  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async #inspect(server: Server, connection: object): Promise<void> {
    await assertRights(server, this.#stream, 'consumer');
    const [serverMs] = await Promise.all([clockOf(server), this.#identity.ask(server)]);
    this.#trimmer.serverOffsetMs = serverMs - this.#clock.ms();
    if (await this.#histories.meet(server, connection)) this.#entries.readAgain();
    if (connection === this.#control.connection) await warnOfOthers(server, this.#stream, this.#log);
    if ((await ensureGroup(server, this.#stream)) && this.#hasRead) this.#vanished = true;
  }

  /**
   * A server's history also changes if it is demoted and promoted again before a connection sends a command. Then the
   * entries that one connection reads could never be acknowledged on the other one.
   */
  #reconnect(): void {
    if (new Set(this.#connections.map((connection) => this.#histories.of(connection))).size === 1) return;
    for (const connection of this.#connections) connection.restart('the server has another history of writes now');
  }

  async #end(): Promise<void> {
    this.#trimmer.stop();
    this.#identity.stop();
    this.#heartbeats?.close();
    if (this.#control.connection.ready) await this.#renew(LEAVES).catch(() => undefined);
    for (const connection of this.#connections) connection.close();
  }

  async #renew(replicasMax: number): Promise<boolean> {
    const args = [REPLICA_LEASE_MS, replicasMax, GROUP, MEMBER_IDLE_MAX_MS].map(String);
    const { connection } = this.#control;
    const reply = await this.#control.of(this.#register.run(connection, this.#stream, [this.name, ...args]));
    if (reply === -1) return false;
    const [replicas, preceding] = reply as readonly [number, number];
    this.replicas = replicas;
    this.isFirst = preceding === 0;
    return true;
  }

  /** A replica that was frozen for longer than its lease may have lost its place. It logs a warning and continues. */
  async #beat(): Promise<void> {
    try {
      await this.#renew(0);
      const crowded = this.replicas > this.#replicasMax;
      if (crowded && !this.#crowded)
        this.#log.warn({ replicas: this.replicas }, 'more replicas run than INGEST_CONSUMER_REPLICAS_MAX allows');
      this.#crowded = crowded;
    } catch (cause) {
      this.#log.debug({ err: cause }, 'no heartbeat sent');
    }
  }

  #command(command: Command, replies = this.#control): Promise<RedisValue> {
    return replies.of(replies.connection.send(command));
  }
}
