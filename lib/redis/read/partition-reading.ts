// One partition as PartitionedReader reads it: at most one read under way, what it brought, and what went wrong.
//
// Invariants: what could not be acknowledged because the partition was away is acknowledged before it is read again. A
// partition that failed is left alone for PAUSE_FIRST_MS to PAUSE_MAX_MS.
import assert from 'node:assert/strict';
import { GroupVanished, type Delivery, type EntryName, type QueueState } from '../../ingest/queue.ts';
import { pauseMs } from '../../process/backoff.ts';
import type { ClockAndRandom } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import type { StreamReader } from './stream-reader.ts';

const PAUSE_FIRST_MS = 50;
const PAUSE_MAX_MS = 1_000;
/** A fault is reported for so long after the next read was due: without reads its end cannot be seen. */
const FAULT_MS = 2_000;

export interface PartitionReadingOptions extends ClockAndRandom {
  readonly log: Log;
}

/**
 * A read is under way, which waits for events (`blocking`) or does not; or the group is gone, and was not joined since.
 */
type State = 'idle' | 'polling' | 'blocking' | 'vanished';

/** The states that may follow each one. */
const NEXT: Readonly<Record<State, readonly State[]>> = {
  idle: ['polling', 'blocking'],
  polling: ['idle', 'vanished'],
  blocking: ['idle', 'vanished'],
  vanished: ['idle'],
};

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
  #state: State = 'idle';
  #fault: Error | undefined;
  #failures = 0;
  #retryMs = 0;
  #joinsLater = false;
  #joins = 0;

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
    const known = this.#isReading || this.#system.clock.ms() < this.#retryMs + FAULT_MS;
    if (!connection.available || this.#fault === undefined || !known) return connection;
    return { available: false, reason: this.#fault.message };
  }

  /** Whether a read is under way that does not wait for events. */
  get polling(): boolean {
    return this.#state === 'polling';
  }

  /** Whether the group was gone, and has not been joined since. */
  get vanished(): boolean {
    return this.#state === 'vanished';
  }

  /** Up to `max` of the deliveries that wait here, oldest first. */
  take(max: number): Delivery[] {
    return this.#waiting.splice(0, max);
  }

  /** Begins a read, unless one is under way, something waits here, or it is not time yet. */
  begin(max: number, idleMs: number, waitMs: number): void {
    if (this.#state !== 'idle' || this.#waiting.length > 0 || this.#system.clock.ms() < this.#retryMs) return;
    this.#become(waitMs > 0 ? 'blocking' : 'polling');
    void this.#read(max, idleMs, waitMs);
  }

  /** Joins the group; gives whether it was made. A rejection is made up for by the next reads. */
  async join(): Promise<boolean> {
    try {
      const made = await this.reader.join();
      this.#joinsLater = false;
      this.#joins += 1;
      if (made) this.#log.warn('made the consumer group of a partition, from its beginning');
      return made;
    } catch (cause) {
      this.#joinsLater = true;
      this.#failed(cause);
      throw cause;
    } finally {
      if (this.#state === 'vanished') this.#become('idle');
    }
  }

  /** Acknowledges these as soon as the partition is there again. */
  owe(entries: readonly EntryName[]): void {
    this.#owed.push(...entries);
  }

  async #read(max: number, idleMs: number, waitMs: number): Promise<void> {
    const joins = this.#joins;
    let after: State = 'idle';
    try {
      if (this.#joinsLater) await this.join();
      await this.#acknowledgeOwed();
      const deliveries = await this.reader.read(max, idleMs, waitMs);
      assert(this.#waiting.length === 0);
      this.#waiting = [...deliveries];
      this.#fault = undefined;
      this.#failures = 0;
    } catch (cause) {
      // A read that began before the group was joined again tells of the group before.
      if (!(cause instanceof GroupVanished)) this.#failed(cause);
      else if (joins === this.#joins) after = 'vanished';
    }
    this.#become(after);
    this.#onEnd();
  }

  get #isReading(): boolean {
    return this.#state === 'polling' || this.#state === 'blocking';
  }

  #become(state: State): void {
    assert(NEXT[this.#state].includes(state), `${this.#state} → ${state}`);
    this.#state = state;
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
