// The reading side of the queue on a Redis Stream: one member of the consumer group `warehouse`.
//
// Invariants: an entry is given to the caller again and again until it is acknowledged. Entries that a dead or frozen
// member took are claimed before new ones are read, first thing and then every CLAIM_INTERVAL_MS: they are the oldest.
// After a lost answer this member's own pending entries are read again at once, and do not wait to be claimed.
//
// Two connections: a blocked XREADGROUP holds up every command behind it, so reading has one of its own. A command
// that is not answered in ANSWER_TIMEOUT_MS makes its connection anew; the server was frozen, or the network cut.
import { randomUUID } from 'node:crypto';
import { isUtf8 } from 'node:buffer';
import { hostname } from 'node:os';
import {
  GroupVanished,
  REPLICA_LEASE_MS,
  RETENTION_MS,
  type Delivery,
  type QueueLag,
  type QueueReader,
} from '../ingest/queue.ts';
import { TIME_MS_MAX } from '../ingest/warehouse.ts';
import type { Log } from '../process/log.ts';
import { byteConnection, type RedisConnection, type Server, valueConnection } from './client.ts';
import { withTimeout } from './deadline.ts';
import { NoAnswer, QueueRefusal, RedisError } from './errors.ts';
import { queueIdentity } from './queue-identity.ts';
import type { RedisValue, Reply } from './reply.ts';
import { assertRights } from './rights.ts';
import { Script } from './script.ts';
import { GROUP, STREAM } from './stream-names.ts';
import { StreamTrimmer, UNLANDED_HOURS_MAX } from './stream-trimmer.ts';

const ANSWER_TIMEOUT_MS = 3_000;
const CLAIM_INTERVAL_MS = 1_000;
const SIGN_OF_LIFE_INTERVAL_MS = 1_000;
/** Members without a sign of life and without pending entries are removed after this long, looked for this often. */
const MEMBER_IDLE_MAX_MS = 10 * 60_000;
const TIDY_INTERVAL_MS = 60_000;
/** Entries of one acknowledgement: Redis does nothing else meanwhile. */
const ACKNOWLEDGE_MAX = 1_000;

export interface StreamReaderOptions {
  readonly uri: string;
  readonly log: Log;
  readonly stream?: string;
  /** How long what has not landed stays in the queue, in milliseconds. */
  readonly unlandedMs?: number;
  /** Called with the number of accepted events that the queue lost before a member read them. */
  readonly onLost?: (events: number) => void;
}

/** Names of an entry's members. */
const MEMBERS = [Buffer.from('body'), Buffer.from('producer')];

export class StreamReader implements QueueReader {
  /** Unique for each process that ever was: two members of one name would share what is pending. */
  readonly name = `${hostname()}-${process.pid}-${randomUUID().slice(0, 8)}`;
  readonly #reading: RedisConnection<Reply>;
  readonly #control: RedisConnection<RedisValue>;
  readonly #stream: string;
  readonly #log: Log;
  readonly #register = new Script('register.lua');
  readonly #join = new Script('join.lua');
  readonly #leave = new Script('leave.lua');
  readonly #lag = new Script('lag.lua');
  readonly #trimmer: StreamTrimmer;

  #signs: NodeJS.Timeout | undefined;
  #replicasMax = 0;
  #crowded = false;
  #tidiedMs = performance.now();
  #claimedMs = Number.NEGATIVE_INFINITY;
  #claimCursor = '0-0';
  /** The last of its own pending entries that this member has read again, after an answer was lost; undefined where none was. */
  #againFrom: string | undefined;
  /** See Delivery.source. */
  #source = '';
  #closing: Promise<void> | undefined;

  constructor(options: StreamReaderOptions) {
    const { uri, log, stream = STREAM } = options;
    this.#stream = stream;
    this.#log = log;
    this.#reading = byteConnection({ uri, log: log.child({ connection: 'reading' }), name: 'ingest-consumer' });
    this.#control = valueConnection({ uri, log: log.child({ connection: 'control' }), name: 'ingest-consumer' });
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
   * Begins to connect, and keeps at it. True once both connections stand, false when they do not within `timeoutMs`. Rejects
   * with a QueueRefusal where this program must not work with the queue as it is.
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

  /** Whether the servers answer, and take no commands yet: replicas, or reading their data. */
  get waiting(): boolean {
    return [this.#reading, this.#control].every((connection) => connection.ready || connection.waiting);
  }

  async register(replicasMax: number): Promise<boolean> {
    if ((await this.#sign(replicasMax)) === -1) return false;
    this.registerLater(replicasMax);
    return true;
  }

  /** Counts this process as a replica as soon as the queue takes its sign of life, without asking for a place. */
  registerLater(replicasMax: number): void {
    this.#replicasMax = replicasMax;
    this.#signs ??= setInterval(() => void this.#showLife(), SIGN_OF_LIFE_INTERVAL_MS);
    this.#trimmer.start();
  }

  async join(): Promise<boolean> {
    this.#claimedMs = Number.NEGATIVE_INFINITY;
    this.#claimCursor = '0-0';
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

  async acknowledge(entries: readonly string[]): Promise<void> {
    for (let from = 0; from < entries.length; from += ACKNOWLEDGE_MAX) {
      await this.#command(['XACK', this.#stream, GROUP, ...entries.slice(from, from + ACKNOWLEDGE_MAX)]);
    }
  }

  async lag(): Promise<QueueLag> {
    const command = this.#lag.command(this.#stream);
    command.push(GROUP);
    const [events, oldestMs] = (await this.#answer(this.#lag.run(this.#control, command))) as [number, number];
    return { events, oldestMs };
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
    this.#source = `${(await queueIdentity(server, this.#stream)).id}/${this.#stream}`;
  }

  async #end(): Promise<void> {
    clearInterval(this.#signs);
    this.#trimmer.stop();
    if (this.#control.ready) await this.#leaveGroup(0).catch(() => undefined);
    await Promise.all([this.#reading.close(), this.#control.close()]);
  }

  async #claim(max: number, idleMs: number): Promise<readonly Delivery[]> {
    const now = performance.now();
    if (this.#claimCursor === '0-0' && now - this.#claimedMs < CLAIM_INTERVAL_MS) return [];
    this.#claimedMs = now;
    for (;;) {
      const command = [
        'XAUTOCLAIM',
        this.#stream,
        GROUP,
        this.name,
        String(idleMs),
        this.#claimCursor,
        'COUNT',
        String(max),
      ];
      const reply = await this.#read(command, 0);
      reply.array();
      this.#claimCursor = reply.text();
      const entries = this.#deliveriesOf(reply);
      // Redis forgets a pending entry that it no longer holds at the moment it says so here.
      const dropped = elementsOf(reply, () => droppedDelivery(reply.text(), this.#source));
      const claimed = [...dropped, ...entries];
      if (claimed.length > 0 || this.#claimCursor === '0-0') return claimed;
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
    // The wait was ended by force: the stream is gone, or the server is no master any more. It says which when it is asked again.
    if (reply === undefined) return this.#readGroup(max, 0, from);
    // An array of one stream, which is its name and its entries; no array where there is nothing.
    if (reply.array() === undefined) return [];
    reply.array();
    reply.text();
    return this.#deliveriesOf(reply);
  }

  #deliveriesOf(reply: Reply): Delivery[] {
    return elementsOf(reply, () => deliveryOf(reply, this.#source));
  }

  /** A command on the reading connection that may block for `waitMs`. */
  async #read(command: readonly string[], waitMs: number): Promise<Reply> {
    try {
      return await withTimeout(this.#reading.send(command), waitMs + ANSWER_TIMEOUT_MS);
    } catch (cause) {
      if (vanished(cause)) throw new GroupVanished('the stream or its group is gone', { cause });
      // An error that Redis answered with lost nothing; anything else may have.
      if (!(cause instanceof RedisError)) this.#againFrom = '0';
      if (cause instanceof NoAnswer) this.#reading.restart('the server does not answer');
      throw cause;
    }
  }

  #command(command: readonly string[]): Promise<RedisValue> {
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

  async #sign(replicasMax: number): Promise<number> {
    const command = this.#register.command(this.#stream);
    command.push(this.name, String(REPLICA_LEASE_MS), String(replicasMax));
    return (await this.#answer(this.#register.run(this.#control, command))) as number;
  }

  /** A replica that was frozen for longer than its lease comes back to a place that may be taken: it says so and goes on. */
  async #showLife(): Promise<void> {
    try {
      const replicas = await this.#sign(0);
      const crowded = replicas > this.#replicasMax;
      if (crowded && !this.#crowded)
        this.#log.warn({ replicas }, 'more replicas run than INGEST_CONSUMER_REPLICAS_MAX allows');
      this.#crowded = crowded;
      if (performance.now() - this.#tidiedMs < TIDY_INTERVAL_MS) return;
      this.#tidiedMs = performance.now();
      await this.#leaveGroup(MEMBER_IDLE_MAX_MS);
    } catch (cause) {
      // The queue is away: whoever reads says so.
      this.#log.debug({ err: cause }, 'no sign of life sent');
    }
  }

  async #leaveGroup(idleMs: number): Promise<void> {
    const command = this.#leave.command(this.#stream);
    command.push(GROUP, this.name, String(idleMs));
    await this.#answer(this.#leave.run(this.#control, command));
  }
}

function elementsOf<T>(reply: Reply, read: () => T): T[] {
  const elements: T[] = [];
  for (let left = reply.array() ?? 0; left > 0; left -= 1) elements.push(read());
  return elements;
}

/** One entry: its name, and names and values by turns; no array of them where the entry is gone. */
function deliveryOf(reply: Reply, source: string): Delivery {
  reply.array();
  const entry = reply.text();
  const members = reply.array();
  if (members === undefined) return droppedDelivery(entry, source);
  let producer: string | undefined;
  let body: Buffer | undefined;
  for (let left = members; left > 0; left -= 2) {
    const member = reply.oneOf(MEMBERS);
    if (member === 1) {
      producer = producerOf(reply);
      continue;
    }
    const value = reply.bytes();
    if (member === 0) body = value;
  }
  return { entry, source, producer, body, dropped: false, acceptedAtMs: acceptedAtMs(entry) };
}

const droppedDelivery = (entry: string, source: string): Delivery => ({
  entry,
  source,
  producer: undefined,
  body: undefined,
  dropped: true,
  acceptedAtMs: acceptedAtMs(entry),
});

const acceptedAtMs = (entry: string): number => Math.min(Number.parseInt(entry, 10), TIME_MS_MAX);

// Fact: a producer sends many events, and a string made of bytes costs more than a comparison of them. Choice: the last one
// is kept, in a copy, because the bytes are a part of an answer that may be large.
let lastBytes: Buffer = Buffer.alloc(0);
let lastProducer: string | undefined = '';
function producerOf(reply: Reply): string | undefined {
  if (!reply.passes(lastBytes)) {
    lastBytes = Buffer.from(reply.bytes());
    lastProducer = isUtf8(lastBytes) ? lastBytes.toString('utf8') : undefined;
  }
  return lastProducer;
}

/** What Redis says of a group or stream that is not there. */
const vanished = (cause: unknown): boolean => cause instanceof RedisError && cause.code === 'NOGROUP';
