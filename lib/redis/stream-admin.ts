// The queue as ingest-admin sees it, on Redis Streams: one connection, opened for one command of an operator.
//
// Streams are a list, in the order of partitions; today it has one. What concerns one event goes to its stream, what concerns
// the queue goes through all of them.
import { namesIn } from '../ingest/erased.ts';
import {
  QueueFailed,
  type EntryState,
  type Erasure,
  type MeasuredSize,
  type QueueAdmin,
  type QueuedCopy,
  type QueueStatus,
  type Replay,
  type Replayed,
} from '../ingest/queue-admin.ts';
import { REPLICA_LEASE_MS } from '../ingest/queue.ts';
import type { Log } from '../process/log.ts';
import { maskedUri } from '../process/masked-uri.ts';
import { byteConnection, type RedisConnection } from './client.ts';
import { withTimeout } from './deadline.ts';
import { deliveriesOf } from './deliveries.ts';
import { durabilityFaults } from './durability.ts';
import { RedisError } from './errors.ts';
import { INDEX_FIELD } from './id-index.ts';
import { measuredSize } from './measured-size.ts';
import { partitionStatus } from './partition-status.ts';
import { clusterRefusal, FORMAT_VERSION, queueIdentity, type QueueIdentity } from './queue-identity.ts';
import type { RedisValue, Reply } from './reply.ts';
import { Script, type Argument } from './script.ts';
import { serverInfo, serverName } from './server-info.ts';
import { GROUP, STREAM } from './stream-names.ts';
import { UNLANDED_HOURS_MAX } from './stream-trimmer.ts';

const CONNECT_MS = 5_000;
const ANSWER_TIMEOUT_MS = 10_000;
const LOOK_MS = 25;
/** Bytes of bodies that one call of scan.lua should look at: Redis does nothing else meanwhile. */
const SCAN_BYTES = 4 << 20;
const SCAN_ENTRIES_FIRST = 16;
const SCAN_ENTRIES_MAX = 1_000;

export interface StreamAdminOptions {
  readonly uri: string;
  readonly log: Log;
  readonly streams?: readonly string[];
}

export class StreamAdmin implements QueueAdmin {
  readonly place: string;
  readonly #streams: readonly string[];
  readonly #connection: RedisConnection<Reply>;
  readonly #replay = new Script('replay.lua', 'entry-state.lua');
  readonly #states = new Script('states.lua', 'entry-state.lua');
  readonly #scan = new Script('scan.lua');
  readonly #erase = new Script('erase.lua', 'entry-state.lua', 'entry-name.lua');
  readonly #locate = new Script('locate.lua', 'entry-name.lua');
  #identity: QueueIdentity | undefined;
  #opening: Promise<void> | undefined;

  constructor({ uri, log, streams = [STREAM] }: StreamAdminOptions) {
    this.place = maskedUri(uri);
    this.#streams = streams;
    this.#connection = byteConnection({ uri, name: 'ingest-admin', log });
    this.#connection.inspect = async (server) => {
      this.#identity = await queueIdentity(server, this.#stream());
    };
  }

  async status(): Promise<QueueStatus> {
    return this.#telling(async () => {
      const server = this.#connection;
      const memory = await serverInfo(server, 'memory');
      const bytes = (name: string): number | undefined => (memory.has(name) ? Number(memory.get(name)) : undefined);
      const send = (command: readonly Argument[]): Promise<RedisValue> => this.#value(command);
      return {
        server: await serverName(server),
        memoryBytes: bytes('used_memory'),
        memoryLimitBytes: bytes('maxmemory'),
        faults: await durabilityFaults(server.values),
        partitions: await Promise.all(this.#streams.map((stream) => partitionStatus({ send }, stream))),
      };
    });
  }

  find(id: string): Promise<QueuedCopy | undefined> {
    return this.#telling(async () => {
      const stream = this.#stream();
      const command = this.#locate.command(stream);
      command.push(this.#field(id));
      const reply = await this.#run(this.#locate, command);
      return copiesOf(reply, stream).find((copy) => copy.id === id);
    });
  }

  replay(rows: readonly Replay[], again: boolean): Promise<readonly Replayed[]> {
    return this.#telling(async () => {
      const command: Argument[] = this.#replay.command(this.#stream());
      command.push(GROUP, String(UNLANDED_HOURS_MAX * 3_600_000), again ? '1' : '0');
      for (const { replayOf, id, traceparent, producer, body, acceptedAtMs } of rows) {
        const idNote = id === undefined || id === namesIn(body).id ? '' : `id\n${id}\n`;
        const trace = traceparent === undefined ? '' : `traceparent\n${traceparent}\n`;
        command.push(replayOf, producer, body, String(acceptedAtMs), idNote + trace);
      }
      const reply = (await this.#run(this.#replay, command)).value() as readonly (string | number)[];
      return rows.map((_, at) => ({ entry: String(reply[2 * at]), fresh: reply[2 * at + 1] === 1 }));
    });
  }

  states(entries: readonly string[]): Promise<readonly EntryState[]> {
    return this.#telling(async () => {
      const command = this.#states.command(this.#stream());
      command.push(GROUP, ...entries);
      return (await this.#run(this.#states, command)).value() as readonly EntryState[];
    });
  }

  replicasAlive(): Promise<number> {
    return this.#telling(async () => {
      const [seconds] = (await this.#value(['TIME'])) as readonly string[];
      const since = (Number(seconds) * 1_000 - REPLICA_LEASE_MS).toString();
      return (await this.#value(['ZCOUNT', `{${this.#stream()}}:replicas`, since, '+inf'])) as number;
    });
  }

  async *scan(id: string, onLooked: (looked: number, of: number) => void): AsyncGenerator<QueuedCopy> {
    // A body that is this event's holds its id as it is, or written with \u escapes; and \ before what else may have one.
    const texts = [JSON.stringify(id).slice(1, -1), /["\\/]/.test(id) ? '\\' : '\\u'];
    for (const stream of this.#streams) {
      const of = await this.#telling(async () => (await this.#value(['XLEN', stream])) as number);
      let looked = 0;
      let count = SCAN_ENTRIES_FIRST;
      for (let from: string | undefined = '-'; from !== undefined;) {
        const command: string[] = this.#scan.command(stream);
        command.push(from, String(count), id, ...texts);
        const page = await this.#telling(async () => {
          const reply = await this.#run(this.#scan, command);
          reply.array();
          const next = reply.isString ? reply.text() : void reply.array();
          return { next, entries: reply.integer(), bytes: reply.integer(), copies: copiesOf(reply, stream) };
        });
        for (const copy of page.copies) if (copy.id === id) yield copy;
        looked += page.entries;
        onLooked(looked, Math.max(looked, of));
        from = page.next;
        const fitting = Math.floor((SCAN_BYTES * page.entries) / Math.max(1, page.bytes));
        count = Math.max(1, Math.min(4 * count, fitting, SCAN_ENTRIES_MAX));
      }
    }
  }

  erase(copy: QueuedCopy, id: string, body: string): Promise<Erasure> {
    return this.#telling(async () => {
      const command = this.#erase.command(copy.stream);
      command.push(GROUP, copy.entry, body, this.#field(id), String(REPLICA_LEASE_MS));
      command.push(`${this.#identity?.id}/${copy.stream}/${copy.entry}`);
      return (await this.#run(this.#erase, command)).value() as Erasure;
    });
  }

  measure(events: AsyncIterable<{ readonly id: string; readonly body: Buffer }>): Promise<MeasuredSize> {
    return measuredSize({ send: (command) => this.#answer(command) }, (id) => this.#field(id), events);
  }

  async close(): Promise<void> {
    await this.#connection.close();
  }

  /** The stream of an event; `id` will decide which, once there are several. */
  #stream(): string {
    return this.#streams[0] ?? STREAM;
  }

  #field(id: string): string {
    return INDEX_FIELD[this.#identity?.format ?? FORMAT_VERSION](id);
  }

  async #value(command: readonly Argument[]): Promise<RedisValue> {
    return (await withTimeout(this.#connection.send(command), ANSWER_TIMEOUT_MS)).value();
  }

  /** One command of a caller that keeps to itself how its way goes. */
  #answer(command: readonly Argument[]): Promise<Reply> {
    return this.#telling(() => withTimeout(this.#connection.send(command), ANSWER_TIMEOUT_MS));
  }

  #run(script: Script, command: readonly Argument[]): Promise<Reply> {
    return withTimeout(script.run(this.#connection, command), ANSWER_TIMEOUT_MS);
  }

  /** Connects where that has not been done, does `work`, and tells what fails as a QueueFailed. */
  async #telling<T>(work: () => Promise<T>): Promise<T> {
    try {
      await (this.#opening ??= this.#open());
      return await work();
    } catch (cause) {
      if (cause instanceof QueueFailed) throw cause;
      // A script's answer to an error reaches the caller as it is; NOSCRIPT is its sender's business.
      if (cause instanceof RedisError && cause.code === 'NOSCRIPT') throw cause;
      const refusal = clusterRefusal(cause);
      throw new QueueFailed(refusal instanceof Error ? refusal.message : 'unknown error', { cause });
    }
  }

  async #open(): Promise<void> {
    let refused: Error | undefined;
    this.#connection.onRefused = (refusal) => (refused = refusal);
    this.#connection.open();
    const deadline = performance.now() + CONNECT_MS;
    while (!this.#connection.ready) {
      if (refused !== undefined) throw refused;
      if (performance.now() > deadline) {
        this.#opening = undefined;
        throw new Error(`the queue does not answer (${this.#connection.lastError})`);
      }
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }
}

function copiesOf(reply: Reply, stream: string): QueuedCopy[] {
  return deliveriesOf(reply, stream).map(({ entry, producer, body, notes, acceptedAtMs, replayOf }) => ({
    stream,
    entry,
    id: notes.id ?? (body && namesIn(body).id),
    producer,
    acceptedAtMs,
    body: body ?? Buffer.alloc(0),
    replayOf,
  }));
}
