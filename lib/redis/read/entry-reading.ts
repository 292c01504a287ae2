// Reads entries for one member of the consumer group: its own pending entries after a lost reply, or if some of them
// were never received, then those of dead or frozen members, then new ones.
//
// Invariant: after a lost reply, this member reads its pending entries again before another member can claim them.
import { REPLICA_LEASE_MS, type Delivery } from '../../ingest/queue.ts';
import type { Clock } from '../../process/clock.ts';
import type { ReadEntries } from '../stream/entry.ts';
import { RedisError } from '../wire/errors.ts';
import { Script } from '../wire/script.ts';
import type { RedisBytes } from '../wire/values.ts';
import { GROUP, keyOf } from '../stream/layout.ts';
import type { Replies } from './timed-replies.ts';

const CLAIM_INTERVAL_MS = 1_000;
const CLAIM_BYTES = 4 << 20;

interface EntryReadingOptions {
  readonly clock: Clock;
  readonly replies: Replies;
  readonly stream: string;
  readonly member: string;
  readonly parse: (reply: RedisBytes) => ReadEntries;
  /** The number of the server that this connection uses: see Delivery. */
  readonly servers: () => number;
}

export class EntryReading {
  readonly #options: EntryReadingOptions;
  readonly #claimScript = new Script('claim.lua');
  #claimedMs = Number.NEGATIVE_INFINITY;
  /** The entry at which the next claim starts; '-' means the first. */
  #claimCursor = '-';
  /** Names of the entries that were delivered and are not acknowledged. */
  readonly inHand = new Set<string>();
  outstanding = 0;
  /** When a read found that no event has been erased lately. */
  nothingErasedMs = Number.NEGATIVE_INFINITY;
  /** The last of this member's own pending entries that was read again. */
  #againFrom: string | undefined;

  constructor(options: EntryReadingOptions) {
    this.#options = options;
    options.replies.connection.tell({ onLost: () => (this.#againFrom = '0') });
  }

  /** Needed after a change of servers, because entries in hand cannot be acknowledged on the new server. */
  readAgain(): void {
    this.#againFrom = '0';
  }

  async read(max: number, idleMs: number, waitMs: number): Promise<readonly Delivery[]> {
    const servers = this.#options.servers();
    this.outstanding += 1;
    try {
      let deliveries: readonly Delivery[] = [];
      if (this.#againFrom !== undefined) {
        // Entries in hand are delivered again.
        const own = await this.#readGroup(max, 0, this.#againFrom);
        this.#againFrom = own.last;
        deliveries = own.deliveries;
      }
      const claims = this.#claimCursor !== '-' || this.#options.clock.ms() - this.#claimedMs >= CLAIM_INTERVAL_MS;
      if (deliveries.length === 0 && claims) deliveries = await this.#claim(max, idleMs);
      if (deliveries.length === 0) ({ deliveries } = await this.#readGroup(max, waitMs, '>'));
      for (const { entry } of deliveries) this.inHand.add(entry);
      return servers === 0 ? deliveries : deliveries.map((delivery) => ({ ...delivery, servers }));
    } finally {
      this.outstanding -= 1;
    }
  }

  async #claim(max: number, idleMs: number): Promise<readonly Delivery[]> {
    const { clock, replies, stream, member } = this.#options;
    this.#claimedMs = clock.ms();
    for (;;) {
      const args = [GROUP, member, idleMs, this.#claimCursor, max, CLAIM_BYTES, REPLICA_LEASE_MS].map(String);
      const reply = await replies.of(this.#claimScript.run(replies.connection.bytes, stream, args));
      const [cursor, entries, own] = reply as readonly [Buffer, RedisBytes, readonly Buffer[]];
      // A command that was given up can still reach the server, over a network or a proxy that held it back.
      if (own.some((entry) => !this.inHand.has(entry.toString('latin1')))) this.#againFrom ??= '0';
      const next = cursor.toString('latin1');
      this.#claimCursor = next === '0-0' ? '-' : next;
      const { deliveries } = this.#options.parse(entries);
      if (deliveries.length > 0 || next === '0-0') return deliveries;
    }
  }

  async #readGroup(max: number, waitMs: number, from: string): Promise<ReadEntries> {
    // BLOCK 0 would wait forever.
    const block = waitMs === 0 ? [] : ['BLOCK', String(waitMs)];
    const { stream, member, replies, clock } = this.#options;
    const { bytes } = replies.connection;
    const some = ['GROUP', GROUP, member, 'COUNT', String(max), ...block];
    const reading = bytes.send(['XREADGROUP', ...some, 'STREAMS', stream, from]);
    // Both leave in one write. The server counts after the read.
    const counting = bytes.send(['ZCARD', keyOf(stream, 'erased')]).catch(() => undefined);
    const answers = await replies.of(Promise.all([reading, counting]), waitMs).catch((cause: unknown) => {
      if (cause instanceof RedisError && cause.code === 'UNBLOCKED' && waitMs > 0) return undefined;
      throw cause;
    });
    // UNBLOCKED: the stream was deleted, or the server is no longer a master. The next command reports which.
    if (answers === undefined) return this.#readGroup(max, 0, from);
    const [reply, erased] = answers;
    if (erased === 0) this.nothingErasedMs = clock.ms();
    // The reply is null, or an array with one stream: its name and its entries.
    const [[, entries = null] = []] = (reply ?? []) as readonly (readonly RedisBytes[])[];
    return this.#options.parse(entries);
  }
}
