// Reads entries for one member of the consumer group: its own pending entries after a lost reply, then those of dead
// or frozen members, then new ones.
//
// Invariants: after a lost reply, this member reads its pending entries again before another member can claim them.
// If no byte of a reply arrives for ANSWER_TIMEOUT_MS plus the block time, the connection is replaced.
import { GroupVanished, REPLICA_LEASE_MS, type Delivery } from '../../ingest/queue.ts';
import type { Clock } from '../../process/clock.ts';
import type { RedisConnection } from '../server/connection.ts';
import { withTimeout } from '../wire/deadline.ts';
import { entriesOf, type ReadEntries } from '../stream/entry.ts';
import { isNoGroup, NoAnswer, RedisError } from '../wire/errors.ts';
import { isNoScript, Script } from '../wire/script.ts';
import type { Argument, RedisBytes } from '../wire/values.ts';
import { GROUP } from '../stream/layout.ts';

export const ANSWER_TIMEOUT_MS = 3_000;
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
    const deliveries = await this.#read(max, idleMs, waitMs);
    return servers === 0 ? deliveries : deliveries.map((delivery) => ({ ...delivery, servers }));
  }

  async #read(max: number, idleMs: number, waitMs: number): Promise<readonly Delivery[]> {
    if (this.#againFrom !== undefined) {
      // The entries of a lost reply are pending for this member. Entries in hand are delivered again.
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
    for (;;) {
      const { stream, member } = this.#options;
      const args = [GROUP, member, idleMs, this.#claimCursor, max, CLAIM_BYTES, REPLICA_LEASE_MS].map(String);
      const reply = await this.#claimScript.run({ send: (command) => this.#send(command, 0) }, stream, args);
      const [cursor, entries] = reply as readonly [Buffer, RedisBytes];
      this.#claimCursor = cursor.toString('latin1');
      const { deliveries: claimed } = entriesOf(entries, this.#options.source(), this.#options.latestMs());
      if (claimed.length > 0 || this.#claimCursor === '0-0') {
        if (this.#claimCursor === '0-0') this.#claimCursor = '-';
        return claimed;
      }
    }
  }

  async #readGroup(max: number, waitMs: number, from: string): Promise<ReadEntries> {
    // BLOCK 0 would wait forever.
    const block = waitMs === 0 ? [] : ['BLOCK', String(waitMs)];
    const { stream, member } = this.#options;
    const some = ['GROUP', GROUP, member, 'COUNT', String(max), ...block];
    const command = ['XREADGROUP', ...some, 'STREAMS', stream, from];
    const reply = await this.#send(command, waitMs).catch((cause: unknown) => {
      if (cause instanceof RedisError && cause.code === 'UNBLOCKED' && waitMs > 0) return undefined;
      throw cause;
    });
    // UNBLOCKED: the stream was deleted, or the server is no longer a master. The next command reports which.
    if (reply === undefined) return this.#readGroup(max, 0, from);
    // The reply is null, or an array with one stream: its name and its entries.
    const [[, entries = null] = []] = (reply ?? []) as readonly (readonly RedisBytes[])[];
    return entriesOf(entries, this.#options.source(), this.#options.latestMs());
  }

  async #send(command: readonly Argument[], waitMs: number): Promise<RedisBytes> {
    try {
      return await withTimeout(
        this.#options.clock,
        this.#options.connection.bytes.send(command),
        waitMs + ANSWER_TIMEOUT_MS,
        () => this.#options.connection.bytesReceived,
      );
    } catch (cause) {
      if (isNoGroup(cause)) throw new GroupVanished('the stream or its group is gone', { cause });
      // After an error reply, no entries were lost, unless a script failed halfway.
      const lost = !(cause instanceof RedisError) || (command[0] !== 'XREADGROUP' && !isNoScript(cause));
      if (lost) this.#againFrom ??= '0';
      if (cause instanceof NoAnswer) this.#options.connection.restart('the server does not answer');
      throw cause;
    }
  }
}
