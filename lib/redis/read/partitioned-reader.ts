// The reading side of a queue of several partitions: one member of each partition's group, read as one queue.
//
// Each partition is read by itself, and what it brought waits until somebody asks, so one that is empty, slow or away
// holds up no other. Only when all fail does a method fail.
//
// Invariants: entries of one source come in order. An entry is acknowledged where it was read. What waits here when the
// process dies is pending, and another member claims it. At most READ_AHEAD_ENTRIES entries wait, or one of each
// partition.
//
// Replicas are counted in the first partition; in the others this member gives a sign of life.
import assert from 'node:assert/strict';
import {
  GroupVanished,
  type AcceptedEvent,
  type Delivery,
  type EntryName,
  type QueueReader,
  type QueueState,
} from '../../ingest/queue.ts';
import type { Clock, Timer } from '../../process/clock.ts';
import { PartitionReading, type PartitionReadingOptions } from './partition-reading.ts';
import type { StreamReader } from './stream-reader.ts';

const READ_AHEAD_ENTRIES = 256;

export class PartitionedReader implements QueueReader {
  readonly #partitions: readonly PartitionReading[];
  readonly #first: StreamReader;
  readonly #clock: Clock;
  /** Who reads a source: one for each queue that a partition has ever been. */
  readonly #partitionOf = new Map<string, PartitionReading>();
  #sleepers: (() => void)[] = [];
  /** Where the next read begins to look for what waits, so that every partition has its turn. */
  #turn = 0;

  /** `readers` by the names that logs and metrics give the partitions; the first one counts the replicas. */
  constructor(readers: ReadonlyMap<string, StreamReader>, options: PartitionReadingOptions) {
    this.#clock = options.clock;
    const onEnd = (): void => {
      for (const wake of this.#sleepers.splice(0)) wake();
    };
    this.#partitions = [...readers].map(([name, reader]) => new PartitionReading(name, reader, options, onEnd));
    const [first] = readers.values();
    assert(first !== undefined);
    this.#first = first;
  }

  get name(): string {
    return this.#first.name;
  }

  /** See StreamReader: true once a partition is connected, after all are or the time is over. */
  async open(timeoutMs: number): Promise<boolean> {
    const opened = await Promise.all(this.#partitions.map(({ reader }) => reader.open(timeoutMs)));
    return opened.includes(true);
  }

  get lastError(): string {
    return this.#partitions.map(({ name, reader }) => `partition ${name}: ${reader.lastError}`).join('; ');
  }

  get bodyBytesMax(): number | undefined {
    const each = this.#partitions.map(({ reader }) => reader.bodyBytesMax);
    // One that has not said it makes the greatest NaN.
    const greatest = Math.max(...each.map((bytes) => bytes ?? Number.NaN));
    return Number.isNaN(greatest) ? undefined : greatest;
  }

  get replicas(): number {
    return this.#first.replicas;
  }

  get waiting(): boolean {
    return this.#partitions.every(({ reader }) => reader.waiting);
  }

  async register(replicasMax: number): Promise<boolean> {
    if (!(await this.#first.register(replicasMax))) return false;
    this.#showLife();
    return true;
  }

  registerLater(replicasMax: number): void {
    this.#first.registerLater(replicasMax);
    this.#showLife();
  }

  async join(): Promise<boolean> {
    const joined = await Promise.allSettled(this.#partitions.map((partition) => partition.join()));
    const [first] = joined;
    if (first?.status === 'rejected' && joined.every(({ status }) => status === 'rejected')) throw first.reason;
    // Of several that join at once each may make some of the groups; one makes the first.
    return first?.status === 'fulfilled' && first.value;
  }

  async read(max: number, idleMs: number, waitMs: number): Promise<readonly Delivery[]> {
    const each = Math.max(1, Math.min(max, Math.ceil(READ_AHEAD_ENTRIES / this.#partitions.length)));
    const endMs = this.#clock.ms() + waitMs;
    for (const partition of this.#partitions) partition.begin(each, idleMs, waitMs);
    for (;;) {
      const taken = this.#take(max);
      if (taken.length > 0) return taken;
      if (this.#partitions.some(({ vanished }) => vanished)) throw new GroupVanished('a stream or its group is gone');
      this.#throwWhereAllFail();
      const leftMs = waitMs > 0 ? endMs - this.#clock.ms() : Number.POSITIVE_INFINITY;
      if (leftMs <= 0 || (waitMs === 0 && !this.#partitions.some(({ polling }) => polling))) return [];
      await this.#change(leftMs);
    }
  }

  async acknowledge(entries: readonly EntryName[]): Promise<number> {
    const read = entries.filter(({ source }) => this.#partitionOf.has(source));
    const parts = [...Map.groupBy(read, ({ source }) => this.#partitionOf.get(source) as PartitionReading)];
    const settled = await Promise.allSettled(parts.map(([{ reader }, some]) => reader.acknowledge(some)));
    if (settled.length > 0 && settled.every(({ status }) => status === 'rejected')) this.#throwWhereAllFail();
    let done = 0;
    for (const [at, [partition, some]] of parts.entries()) {
      const one = settled[at];
      if (one?.status === 'fulfilled') done += one.value;
      else {
        partition.owe(some);
        done += some.length;
      }
    }
    return done;
  }

  async erased(events: readonly AcceptedEvent[]): Promise<ReadonlySet<string>> {
    const parts = Map.groupBy(events, ({ source }) => this.#partitionOf.get(source));
    const found = await Promise.all(
      [...parts].map(async ([part, some]) => [...((await part?.reader.erased(some)) ?? [])]),
    );
    return new Set(found.flat());
  }

  states(): ReadonlyMap<string, QueueState> {
    return new Map(this.#partitions.map(({ name, state }) => [name, state]));
  }

  async close(): Promise<void> {
    await Promise.all(this.#partitions.map(({ reader }) => reader.close()));
  }

  #showLife(): void {
    for (const { reader } of this.#partitions)
      if (reader !== this.#first) reader.registerLater(Number.POSITIVE_INFINITY);
  }

  #take(max: number): Delivery[] {
    const taken: Delivery[] = [];
    for (let at = 0; at < this.#partitions.length && taken.length < max; at += 1) {
      const partition = this.#partitions[(this.#turn + at) % this.#partitions.length];
      const some = partition?.take(max - taken.length) ?? [];
      const [first] = some;
      if (partition !== undefined && first !== undefined) this.#partitionOf.set(first.source, partition);
      taken.push(...some);
    }
    this.#turn = (this.#turn + 1) % this.#partitions.length;
    return taken;
  }

  /** Resolves when a read of a partition has ended, or after `timeoutMs`. */
  async #change(timeoutMs: number): Promise<void> {
    let timer: Timer | undefined;
    await new Promise<void>((resolve) => {
      this.#sleepers.push(resolve);
      if (Number.isFinite(timeoutMs)) timer = this.#clock.after(timeoutMs, resolve);
    });
    timer?.close();
  }

  #throwWhereAllFail(): void {
    const faults = this.#partitions.map(({ fault }) => fault);
    const [first] = faults;
    if (first !== undefined && !faults.includes(undefined)) throw first;
  }
}
