// The buffer between reading and landing, which run at the same time.
//
// A commit costs the same for many events as for few. In a backlog, `take` therefore waits for `wanted` entries;
// otherwise it returns whatever has arrived, in order.
//
// Invariants: at most READ_AHEAD_BATCHES times `wanted` entries are waiting, being read or being checked. Their bodies
// use at most BYTES_MAX in all intakes of the process, divided equally, but Redis cannot limit the bytes of a reply.
import type { Entered } from './classify.ts';

/** One batch to land, and one that is read meanwhile. */
const READ_AHEAD_BATCHES = 2;
/**
 * Limit on the bytes of waiting bodies. A read whose bodies are much larger than the previous ones may exceed it
 * once.
 *
 * Fact: each step of handling a batch leaves a copy of its bodies in memory until the next garbage collection.
 * Choice: 4 MiB, which is thousands of short events. Effect: with a backlog of 250 KiB bodies, the consumer stays
 * below 300 MiB; with a limit of 16 MiB, it exceeded 380 MiB (test/end-to-end/large-bodies.long.ts).
 */
const BYTES_MAX = 4 << 20;
const READ_BYTES = BYTES_MAX / 4;
export const READS_AT_ONCE = 4;
/**
 * Fact: the sizes of the next bodies are unknown, but gateways publish their maximum. Choice: all reads together
 * return at most READING_BYTES if every body has the maximum size, but at least READ_ENTRIES_LEAST entries each,
 * divided by the number of streams; if the maximum is unknown, reads are that small. Effect: with bodies of up to 250
 * KiB, the consumer stays below 300 MiB, and with 4 MiB below 600 MiB (test/end-to-end/large-bodies.long.ts). Short
 * events land 1.1 to 1.35 times as fast as with two reads of 32 entries.
 */
const READING_BYTES = 40 << 20;
const READ_ENTRIES_LEAST = 12;
const READ_ENTRIES_MOST = 64;

/** Maximum number of entries in one read if a body has up to `bodyBytesMax` bytes. */
export function readEntriesMax(bodyBytesMax: number | undefined, streams: number): number {
  const entries = Math.floor(READING_BYTES / READS_AT_ONCE / streams / (bodyBytesMax ?? Number.POSITIVE_INFINITY));
  return Math.max(Math.ceil(READ_ENTRIES_LEAST / streams), Math.min(READ_ENTRIES_MOST, entries));
}

export interface IntakeOptions {
  /** Number of entries in a batch in a backlog. */
  readonly wanted: number;
  readonly readMax: () => number;
  /** Number of streams that share BYTES_MAX. */
  readonly streams: number;
}

export class Intake {
  readonly #options: IntakeOptions;
  readonly #takers: (() => void)[] = [];
  #wakeReader: () => void = () => undefined;
  #waiting: Entered[] = [];
  /** Entries that wait or are being checked against schemas, and the bytes of their bodies. */
  #held = 0;
  #heldBytes = 0;
  /** Limit on the entries of one read after a failure of the queue. */
  #readEntries = Number.POSITIVE_INFINITY;
  /** Number of entries that the current reads may return. */
  #reserved = 0;
  /** Mean size of a body in the last read that was not empty. */
  #meanBytes = 0;
  /** True if the last read was full, so that the queue probably has more entries. */
  backlog = false;
  #ended = false;

  constructor(options: IntakeOptions) {
    this.#options = options;
  }

  /** Makes reads small, because a large one may have failed. They double while they are full. */
  slow(): void {
    this.#readEntries = 1;
  }

  /** Returns how many of `wanted` entries a read may return now. */
  readMax(wanted: number): number {
    return Math.min(wanted, this.#readEntries);
  }

  /** Lets `take` return the waiting entries, because the next read may take a long time. */
  settle(): void {
    this.backlog = false;
    this.#wakeTakers();
  }

  /**
   * Waits for room, then returns how many entries the next read may return. Call `add` after that read. A read that
   * runs alone may return as many entries as READS_AT_ONCE others together.
   */
  async reserve(alone = false): Promise<number> {
    const reads = alone ? READS_AT_ONCE : 1;
    while (this.#room() === 0) await new Promise<void>((resolve) => (this.#wakeReader = resolve));
    const entries = this.#room(reads) || this.#room();
    this.#reserved += entries;
    return entries;
  }

  /** Adds the result of a read of up to `reserved` entries. `checked` are those that `addChecked` adds later. */
  add(entries: readonly Entered[], reserved: number, checked: readonly Entered[] = []): void {
    const [count, bytes] = [entries.length + checked.length, bytesOf(entries) + bytesOf(checked)];
    this.#reserved -= reserved;
    this.#held += count;
    this.#heldBytes += bytes;
    if (count > 0) this.#meanBytes = bytes / count;
    this.backlog = count >= reserved;
    if (this.backlog) this.#readEntries *= 2;
    this.addChecked(entries);
  }

  addChecked(entries: readonly Entered[]): void {
    for (const entry of entries) this.#waiting.push(entry);
    this.#wakeTakers();
    // A read that returned less than it reserved makes room.
    this.#wakeReader();
  }

  /** Waits for entries and returns all of them; `undefined` once it has ended and is empty. */
  async take(): Promise<readonly Entered[] | undefined> {
    while (this.#waiting.length === 0 || this.#filling()) {
      if (this.#ended) return undefined;
      await new Promise<void>((resolve) => this.#takers.push(resolve));
    }
    const taken = this.#waiting;
    this.#waiting = [];
    this.#held -= taken.length;
    this.#heldBytes -= bytesOf(taken);
    this.#wakeReader();
    return taken;
  }

  end(): void {
    this.#ended = true;
    this.settle();
  }

  #filling(): boolean {
    return this.backlog && this.#waiting.length < this.#options.wanted && (this.#reserved > 0 || this.#room() > 0);
  }

  /** Returns the number of entries for the next read; 0 if it must wait. */
  #room(reads = 1): number {
    const { wanted, readMax, streams } = this.#options;
    const most = this.readMax(reads * readMax());
    const entries = Math.max(1, Math.min(most, Math.floor(READ_BYTES / streams / this.#meanBytes)));
    const coming = this.#held + this.#reserved;
    const bytes = this.#heldBytes + (this.#reserved + entries) * this.#meanBytes;
    return coming === 0 || (coming + entries <= READ_AHEAD_BATCHES * wanted && bytes <= BYTES_MAX / streams)
      ? entries
      : 0;
  }

  #wakeTakers(): void {
    for (const wake of this.#takers.splice(0)) wake();
  }
}

const bytesOf = (entries: readonly Entered[]): number => entries.reduce((bytes, { body }) => bytes + body.length, 0);
