// Reads entries for one member of the consumer group: its own pending entries after a lost reply, then those of dead
// or frozen members, then new ones.
//
// Invariant: after a lost reply, this member reads its pending entries again before another member can claim them.
import { GroupVanished, REPLICA_LEASE_MS, type Delivery } from '../../ingest/queue.ts';
import type { Clock } from '../../process/clock.ts';
import type { RedisConnection } from '../server/connection.ts';
import { withTimeout } from '../wire/deadline.ts';
import { entriesOf, type ReadEntries } from '../stream/entry.ts';
import { isNoGroup, NoAnswer, RedisError } from '../wire/errors.ts';
import { Script } from '../wire/script.ts';
import type { RedisBytes } from '../wire/values.ts';
import { GROUP, keyOf } from '../stream/layout.ts';

const ANSWER_TIMEOUT_MS = 3_000;
const CLAIM_INTERVAL_MS = 1_000;
const CLAIM_BYTES = 4 << 20;

interface EntryReadingOptions {
  readonly clock: Clock;
  readonly connection: RedisConnection;
  readonly stream: string;
  readonly member: string;
  readonly source: () => string;
  readonly latestMs: () => number;
  /** The number of the server that this connection uses: see Delivery. */
  readonly servers: () => number;
}

export class EntryReading {
  readonly #options: EntryReadingOptions;
  readonly #claimScript = new Script('claim.lua');
  #claimedMs = Number.NEGATIVE_INFINITY;
  /** The entry at which the next claim starts; '-' means the first. */
  #claimCursor = '-';
  /** Reads that wait for a reply. */
  outstanding = 0;
  /** When a read found that no event has been erased lately. */
  nothingErasedMs = Number.NEGATIVE_INFINITY;
  /** The last of this member's own pending entries that was read again. Set only after a lost reply. */
  #againFrom: string | undefined;

  constructor(options: EntryReadingOptions) {
    this.#options = options;
    options.connection.tell({ onLost: () => (this.#againFrom = '0') });
  }

  /** Needed after a change of servers, because entries in hand cannot be acknowledged on the new server. */
  readAgain(): void {
    this.#againFrom = '0';
  }

  begin(): void {
    this.#claimedMs = Number.NEGATIVE_INFINITY;
    this.#claimCursor = '-';
  }

  async read(max: number, idleMs: number, waitMs: number): Promise<readonly Delivery[]> {
    const servers = this.#options.servers();
    this.outstanding += 1;
    try {
      const deliveries = await this.#read(max, idleMs, waitMs);
      return servers === 0 ? deliveries : deliveries.map((delivery) => ({ ...delivery, servers }));
    } catch (cause) {
      // Entries of the lost reply may be pending for this member.
      this.#againFrom ??= '0';
      throw cause;
    } finally {
      this.outstanding -= 1;
    }
  }

  async #read(max: number, idleMs: number, waitMs: number): Promise<readonly Delivery[]> {
    if (this.#againFrom !== undefined) {
      // Entries in hand are delivered again.
      const own = await this.#readGroup(max, 0, this.#againFrom);
      this.#againFrom = own.last;
      if (own.deliveries.length > 0) return own.deliveries;
    }
    const claimed = await this.#claim(max, idleMs);
    return claimed.length > 0 ? claimed : (await this.#readGroup(max, waitMs, '>')).deliveries;
  }

  async #claim(max: number, idleMs: number): Promise<readonly Delivery[]> {
    const now = this.#options.clock.ms();
    if (this.#claimCursor === '-' && now - this.#claimedMs < CLAIM_INTERVAL_MS) return [];
    this.#claimedMs = now;
    const { clock, connection, stream, member } = this.#options;
    for (;;) {
      const args = [GROUP, member, idleMs, this.#claimCursor, max, CLAIM_BYTES, REPLICA_LEASE_MS].map(String);
      const reply = await answerOf(clock, connection, this.#claimScript.run(connection.bytes, stream, args));
      const [cursor, entries] = reply as readonly [Buffer, RedisBytes];
      const next = cursor.toString('latin1');
      this.#claimCursor = next === '0-0' ? '-' : next;
      const { deliveries: claimed } = entriesOf(entries, this.#options.source(), this.#options.latestMs());
      if (claimed.length > 0 || next === '0-0') return claimed;
    }
  }

  async #readGroup(max: number, waitMs: number, from: string): Promise<ReadEntries> {
    // BLOCK 0 would wait forever.
    const block = waitMs === 0 ? [] : ['BLOCK', String(waitMs)];
    const { stream, member, connection, clock } = this.#options;
    const some = ['GROUP', GROUP, member, 'COUNT', String(max), ...block];
    const reading = connection.bytes.send(['XREADGROUP', ...some, 'STREAMS', stream, from]).catch((cause: unknown) => {
      if (cause instanceof RedisError && cause.code === 'UNBLOCKED' && waitMs > 0) return undefined;
      throw cause;
    });
    // Both leave in one write. The server counts after the read.
    const counting = connection.bytes.send(['ZCARD', keyOf(stream, 'erased')]).catch(() => undefined);
    const [reply, erased] = await answerOf(clock, connection, Promise.all([reading, counting]), waitMs);
    if (erased === 0) this.nothingErasedMs = clock.ms();
    // UNBLOCKED: the stream was deleted, or the server is no longer a master. The next command reports which.
    if (reply === undefined) return this.#readGroup(max, 0, from);
    // The reply is null, or an array with one stream: its name and its entries.
    const [[, entries = null] = []] = (reply ?? []) as readonly (readonly RedisBytes[])[];
    return entriesOf(entries, this.#options.source(), this.#options.latestMs());
  }
}

/** Waits for a reply, with a time limit that is `waitMs` longer. Replaces a connection whose server is silent. */
export async function answerOf<T>(
  clock: Clock,
  connection: RedisConnection,
  reply: Promise<T>,
  waitMs = 0,
): Promise<T> {
  try {
    return await withTimeout(clock, reply, waitMs + ANSWER_TIMEOUT_MS, () => connection.bytesReceived);
  } catch (cause) {
    if (isNoGroup(cause)) throw new GroupVanished('the stream or its group is gone', { cause });
    if (cause instanceof NoAnswer) connection.restart('the server does not answer');
    throw cause;
  }
}
