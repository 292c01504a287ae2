// Reads entries for one member of the consumer group, in this order: its own pending ones whose answer was lost, those
// of dead or frozen members, new ones.
//
// Invariants: after a lost answer this member's pending entries are read again immediately, before they could be
// claimed. Entries of other members are claimed first thing and then every CLAIM_INTERVAL_MS, before new ones are read,
// because they are the oldest.
//
// Limit: ANSWER_TIMEOUT_MS without a byte of the answer, beyond what a read may block; then the connection is replaced.
import { GroupVanished, REPLICA_LEASE_MS, type Delivery } from '../../ingest/queue.ts';
import type { Clock } from '../../process/clock.ts';
import type { RedisConnection } from '../server/client.ts';
import { withTimeout } from '../wire/deadline.ts';
import { entriesOf, readFrom, type ReadEntries } from '../stream/entry.ts';
import { isNoGroup, NoAnswer, RedisError } from '../wire/errors.ts';
import type { Reply } from '../wire/reply.ts';
import { Script, type Argument } from '../wire/script.ts';
import { GROUP } from '../stream/layout.ts';

export const ANSWER_TIMEOUT_MS = 3_000;
const CLAIM_INTERVAL_MS = 1_000;
/** Bytes after which one claim takes no more. */
const CLAIM_BYTES = 4 << 20;

interface EntryReadingOptions {
  readonly clock: Clock;
  /** Used for reading alone. */
  readonly connection: RedisConnection;
  readonly stream: string;
  /** The member's name in the group. */
  readonly member: string;
  /** See Delivery. */
  readonly source: () => string;
  /** See Delivery: of the server that this connection has. */
  readonly servers: () => number;
}

export class EntryReading {
  readonly #options: EntryReadingOptions;
  readonly #claimScript = new Script('claim.lua');
  #claimedMs = Number.NEGATIVE_INFINITY;
  /** Where in the group's list the next claim begins; '-' is its beginning. */
  #claimCursor = '-';
  /** The last of its own pending entries that were read again after a lost answer; undefined: no answer was lost. */
  #againFrom: string | undefined;

  constructor(options: EntryReadingOptions) {
    this.#options = options;
    options.connection.tell({ onLost: () => (this.#againFrom = '0') });
  }

  /** Another server is there: what is in hand is read again, because it may not be acknowledged any more. */
  readAgain(): void {
    this.#againFrom = '0';
  }

  /** The next read claims from the group's beginning. */
  begin(): void {
    this.#claimedMs = Number.NEGATIVE_INFINITY;
    this.#claimCursor = '-';
  }

  /** See QueueReader. */
  async read(max: number, idleMs: number, waitMs: number): Promise<readonly Delivery[]> {
    const servers = this.#options.servers();
    return readFrom(servers, await this.#read(max, idleMs, waitMs));
  }

  async #read(max: number, idleMs: number, waitMs: number): Promise<readonly Delivery[]> {
    if (this.#againFrom !== undefined) {
      // What was taken with an answer that never came is this member's. What is in hand meanwhile comes once more.
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
      const command = [...this.#claimScript.command(stream), ...args];
      const reply = await this.#claimScript.run({ send: (sent) => this.#send(sent, 0) }, command);
      reply.array();
      this.#claimCursor = reply.text();
      const { deliveries: claimed } = entriesOf(reply, this.#options.source());
      if (claimed.length > 0 || this.#claimCursor === '0-0') {
        if (this.#claimCursor === '0-0') this.#claimCursor = '-';
        return claimed;
      }
    }
  }

  async #readGroup(max: number, waitMs: number, from: string): Promise<ReadEntries> {
    // BLOCK 0 would wait for ever.
    const block = waitMs === 0 ? [] : ['BLOCK', String(waitMs)];
    const { stream, member } = this.#options;
    const some = ['GROUP', GROUP, member, 'COUNT', String(max), ...block];
    const command = ['XREADGROUP', ...some, 'STREAMS', stream, from];
    const reply = await this.#send(command, waitMs).catch((cause: unknown) => {
      if (cause instanceof RedisError && cause.code === 'UNBLOCKED' && waitMs > 0) return undefined;
      throw cause;
    });
    // The wait was ended by force: the stream is gone, or the server is no master any more. It says which when it is
    // asked again.
    if (reply === undefined) return this.#readGroup(max, 0, from);
    // An array of one stream, which is its name and its entries; no array where there is nothing.
    if (reply.array() === undefined) return { deliveries: [], last: undefined };
    reply.array();
    reply.text();
    return entriesOf(reply, this.#options.source());
  }

  /** A command on the reading connection that may block for `waitMs`. */
  async #send(command: readonly Argument[], waitMs: number): Promise<Reply> {
    try {
      return await withTimeout(
        this.#options.clock,
        this.#options.connection.send(command),
        waitMs + ANSWER_TIMEOUT_MS,
        () => this.#options.connection.bytesReceived,
      );
    } catch (cause) {
      if (isNoGroup(cause)) throw new GroupVanished('the stream or its group is gone', { cause });
      // An error that Redis answered a command with lost nothing; what a script did before its error, or anything else,
      // may have.
      const lost = !(cause instanceof RedisError) || (command[0] !== 'XREADGROUP' && cause.code !== 'NOSCRIPT');
      if (lost) this.#againFrom ??= '0';
      if (cause instanceof NoAnswer) this.#options.connection.restart('the server does not answer');
      throw cause;
    }
  }
}
