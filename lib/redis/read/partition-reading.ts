// One partition as PartitionedReader reads it: at most one read under way, what it brought, and what went wrong.
//
// Invariants: what could not be acknowledged because the partition was away is acknowledged before it is read again. A
// partition that failed is left alone for PAUSE_FIRST_MS to PAUSE_MAX_MS.
import { GroupVanished, type Delivery, type EntryName, type QueueState } from '../../ingest/queue.ts';
import { pauseMs } from '../../process/backoff.ts';
import type { ClockAndRandom } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import type { StreamReader } from './stream-reader.ts';

const PAUSE_FIRST_MS = 50;
const PAUSE_MAX_MS = 1_000;
/** A fault is told for so long after the next read was due: where nobody reads, nobody knows whether it is over. */
const FAULT_MS = 2_000;

export interface PartitionReadingOptions extends ClockAndRandom {
  readonly log: Log;
}

export class PartitionReading {
  readonly name: string;
  readonly reader: StreamReader;
  readonly #system: ClockAndRandom;
  readonly #log: Log;
  /** Called when a read has ended. */
  readonly #onEnd: () => void;
  #waiting: Delivery[] = [];
  /** Landed, and not acknowledged: the partition was away. */
  #owed: EntryName[] = [];
  #underWay: 'none' | 'polling' | 'blocking' = 'none';
  #fault: Error | undefined;
  #failures = 0;
  #retryMs = 0;
  #joinsLater = false;
  #joins = 0;
  #vanished = false;

  constructor(name: string, reader: StreamReader, options: PartitionReadingOptions, onEnd: () => void) {
    this.name = name;
    this.reader = reader;
    this.#system = options;
    this.#log = options.log.child({ partition: name });
    this.#onEnd = onEnd;
  }

  /** Why the last attempt failed; undefined when it did not. */
  get fault(): Error | undefined {
    return this.#fault;
  }

  /** Away also where it answers and refuses to be read: it has no rights, a full disk or too few replicas. */
  get state(): QueueState {
    const [connection = { available: true }] = this.reader.states().values();
    const known = this.#underWay !== 'none' || this.#system.clock.ms() < this.#retryMs + FAULT_MS;
    if (!connection.available || this.#fault === undefined || !known) return connection;
    return { available: false, reason: this.#fault.message };
  }

  /** Whether a read is under way that does not wait for events. */
  get polling(): boolean {
    return this.#underWay === 'polling';
  }

  /** Whether the group was gone, and has not been joined since. */
  get vanished(): boolean {
    return this.#vanished;
  }

  /** Up to `max` of the deliveries that wait here, oldest first. */
  take(max: number): Delivery[] {
    if (max >= this.#waiting.length) return this.#waiting.splice(0);
    return this.#waiting.splice(0, max);
  }

  /** Begins a read, unless one is under way, something waits here, or it is not time yet. */
  begin(max: number, idleMs: number, waitMs: number): void {
    if (this.#underWay !== 'none' || this.#waiting.length > 0 || this.#vanished) return;
    if (this.#system.clock.ms() < this.#retryMs) return;
    this.#underWay = waitMs > 0 ? 'blocking' : 'polling';
    void this.#read(max, idleMs, waitMs);
  }

  /** Joins the group; gives whether it was made. A rejection is made up for by the next reads. */
  async join(): Promise<boolean> {
    try {
      const made = await this.reader.join();
      this.#joinsLater = false;
      this.#joins += 1;
      this.#vanished = false;
      if (made) this.#log.warn('made the consumer group of a partition, from its beginning');
      return made;
    } catch (cause) {
      this.#joinsLater = true;
      this.#vanished = false;
      this.#failed(cause);
      throw cause;
    }
  }

  /** Acknowledges these as soon as the partition is there again. */
  owe(entries: readonly EntryName[]): void {
    this.#owed.push(...entries);
  }

  async #read(max: number, idleMs: number, waitMs: number): Promise<void> {
    const joins = this.#joins;
    try {
      if (this.#joinsLater) await this.join();
      await this.#acknowledgeOwed();
      const deliveries = await this.reader.read(max, idleMs, waitMs);
      this.#waiting.push(...deliveries);
      this.#fault = undefined;
      this.#failures = 0;
    } catch (cause) {
      // A read that began before the group was joined again tells of the group before.
      if (!(cause instanceof GroupVanished)) this.#failed(cause);
      else if (joins === this.#joins) this.#vanished = true;
    }
    this.#underWay = 'none';
    this.#onEnd();
  }

  async #acknowledgeOwed(): Promise<void> {
    const owed = this.#owed;
    if (owed.length === 0) return;
    await this.reader.acknowledge(owed);
    this.#owed = this.#owed.slice(owed.length);
  }

  #failed(cause: unknown): void {
    this.#fault = cause instanceof Error ? cause : new Error('unknown error');
    this.#failures += 1;
    const { clock, random } = this.#system;
    this.#retryMs = clock.ms() + pauseMs(this.#failures, PAUSE_FIRST_MS, PAUSE_MAX_MS, random.fraction());
    if (this.#failures === 1) this.#log.warn({ err: cause }, 'a partition is away; the others are read on');
  }
}
